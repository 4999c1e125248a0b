//! The HTTP server.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST /` | 64 little-endian `f32` pixels | 10 little-endian `f32` scores |
//! | `PUT /weights` | a weights file of the model | nothing |

use crate::{Result, digits::DigitsArena, models::Models};
use std::{io::Read, thread};
use tiny_http::{Method, Request, Response, Server};

/// The number of threads that answer requests.
pub const WORKERS: usize = 8;

/// The largest body, in bytes: more than the weights have.
const LONGEST_BODY: u64 = 1 << 20;

/// Listens on an address.
pub fn listen(address: &str) -> Result<Server> {
    Server::http(address)
}

/// Answers requests until the server is unblocked once for each worker.
pub fn serve(server: &Server, models: &Models) {
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let mut arena = DigitsArena::new();
                for request in server.incoming_requests() {
                    answer(request, models, &mut arena);
                }
            });
        }
    });
}

fn answer(mut request: Request, models: &Models, arena: &mut DigitsArena) {
    let mut body = Vec::new();
    let result = match request.as_reader().take(LONGEST_BODY).read_to_end(&mut body) {
        Err(error) => Err(error.into()),
        Ok(_) => match (request.method(), request.url()) {
            (Method::Post, "/") => classify(&body, models, arena),
            (Method::Put, "/weights") => models.replace(&body).map(|()| Vec::new()),
            _ => Err("expected POST / or PUT /weights".into()),
        },
    };
    let response = match result {
        Ok(body) => Response::from_data(body),
        Err(error) => Response::from_string(format!("{error}\n")).with_status_code(400),
    };
    // A client that is gone needs no answer.
    let _ = request.respond(response);
}

/// Runs the model in use on the pixels of a body.
fn classify(body: &[u8], models: &Models, arena: &mut DigitsArena) -> Result<Vec<u8>> {
    let (pixels, _) = body.as_chunks();
    let pixels: Vec<f32> = pixels.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    let model = models.current();
    let scores = model.try_infer_in(arena, &pixels)?;
    Ok(scores.iter().flat_map(|score| score.to_le_bytes()).collect())
}
