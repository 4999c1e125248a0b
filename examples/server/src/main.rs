//! Classifies digits over HTTP. Eight threads share one model, whose weights are a mapped file, and
//! a client can replace them while the server runs.
//!
//! ```sh
//! cargo run --release -p digits-server                 # serves on port 8080
//! cargo run --release -p digits-server -- 100000       # a load test of 100000 requests
//! ```

mod load;
mod models;
mod resident;
mod server;

use models::Models;
use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
};

mod digits {
    include!(concat!(env!("OUT_DIR"), "/digits.rs"));
}

/// The weights that the build script wrote.
const WEIGHTS: &str = concat!(env!("OUT_DIR"), "/digits.weights");

/// The result of what may fail, in any thread.
type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result {
    if let Some(count) = env::args().nth(1) {
        println!("{}", load::test(count.parse()?)?);
        return Ok(());
    }
    let folder = folder("serve");
    let models = Models::new(Path::new(WEIGHTS), &folder)?;
    let server = server::listen("127.0.0.1:8080")?;
    println!("listening on http://{}", server.server_addr());
    server::serve(&server, &models);
    Ok(())
}

/// Returns a folder of this process for the weights that clients send.
fn folder(name: &str) -> PathBuf {
    env::temp_dir().join(format!("digits-server-{}-{name}", std::process::id()))
}

#[test]
fn a_model_is_replaced_under_load_and_memory_stays_flat() -> Result {
    let report = load::test(2000)?;
    println!("{report}");
    assert!(report.replaced >= 2, "{report}");
    assert_eq!(report.files, 1, "replaced weights are removed: {report}");
    let growth = report.at_end.saturating_sub(report.at_tenth);
    assert!(growth < 4 << 20, "{report}");
    Ok(())
}
