//! The load test: clients send requests while the model is replaced, and check every answer.

use crate::{
    Result, WEIGHTS,
    digits::Digits,
    folder,
    models::Models,
    resident,
    server::{WORKERS, listen, serve},
};
use digits_data::{Digit, held_out};
use onnxc_runtime::arena::Trailer;
use std::{
    fmt, fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The time between two replacements.
const PAUSE: Duration = Duration::from_millis(5);

/// The measurements of the load test.
#[derive(Debug)]
pub struct Report {
    pub requests: usize,
    /// How often the model was replaced.
    pub replaced: usize,
    pub time: Duration,
    /// The resident size in bytes: after the first requests, after a tenth, and at the end.
    pub at_start: usize,
    pub at_tenth: usize,
    pub at_end: usize,
    /// The number of weights files at the end.
    pub files: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { requests, replaced, time, at_start, at_tenth, at_end, files } = self;
        let rate = *requests as f64 / time.as_secs_f64();
        writeln!(f, "{requests} requests, {rate:.0} per second")?;
        writeln!(f, "the model was replaced {replaced} times, {files} weights file remains")?;
        write!(
            f,
            "resident: {at_start} bytes at the start, {at_tenth} after a tenth, {at_end} at "
        )?;
        f.write_str("the end")
    }
}

/// A request, and the answers of the two models.
struct Case {
    pixels: Vec<u8>,
    answers: [Vec<u8>; 2],
}

/// Sends `count` requests to a server of this process, while the model is replaced by one with
/// half the weights and back.
pub fn test(count: usize) -> Result<Report> {
    let weights = fs::read(WEIGHTS)?;
    let weights = [halve(&weights), weights];
    let cases = cases(&weights)?;
    let folder = folder("load");
    let models = Models::new(Path::new(WEIGHTS), &folder)?;
    let server = listen("127.0.0.1:0")?;
    let address = server.server_addr().to_ip().ok_or("the server has no address")?;
    let resident = [const { AtomicUsize::new(0) }; 2];
    let (replaced, time) = thread::scope(|scope| {
        scope.spawn(|| serve(&server, &models));
        let sent = send_all(address, &cases, &weights, count, &resident);
        (0..WORKERS).for_each(|_| server.unblock());
        sent
    })?;
    let [at_start, at_tenth] = resident.map(AtomicUsize::into_inner);
    let at_end = resident::bytes();
    let files = fs::read_dir(&folder)?.count();
    drop(models);
    fs::remove_dir(&folder)?;
    Ok(Report { requests: count, replaced, time, at_start, at_tenth, at_end, files })
}

/// Sends all requests. Returns how often the model was replaced meanwhile, and the time.
fn send_all(
    address: SocketAddr,
    cases: &[Case],
    weights: &[Vec<u8>; 2],
    count: usize,
    resident: &[AtomicUsize; 2],
) -> Result<(usize, Duration)> {
    let (next, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (next, done) = (&next, &done);
    let mut replacer = Client::open(address, &cases[0])?;
    let clients: Vec<Client> =
        (0..WORKERS).map(|_| Client::open(address, &cases[0])).collect::<Result<_>>()?;
    thread::scope(|scope| {
        let replacer = scope.spawn(move || replace(&mut replacer, weights, done));
        let start = Instant::now();
        let clients: Vec<_> = clients
            .into_iter()
            .map(|client| scope.spawn(move || request(client, cases, count, next, resident)))
            .collect();
        let answered: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        let time = start.elapsed();
        done.store(true, Ordering::Relaxed);
        let replaced = replacer.join();
        for answered in answered {
            answered.map_err(|_| "a client panicked")??;
        }
        Ok((replaced.map_err(|_| "the replacer panicked")??, time))
    })
}

/// Returns the weights file with all weights, which are `f32`, multiplied by one half.
fn halve(file: &[u8]) -> Vec<u8> {
    let (numbers, _) = file[..Digits::WEIGHT_BYTES].as_chunks();
    let halves = numbers.iter().map(|&bytes| 0.5 * f32::from_le_bytes(bytes));
    let mut weights: Vec<u8> = halves.flat_map(f32::to_le_bytes).collect();
    weights.extend(Trailer::new(Digits::WEIGHT_LAYOUT, &weights).to_bytes());
    weights
}

fn cases(weights: &[Vec<u8>; 2]) -> Result<Vec<Case>> {
    let bytes = |numbers: &[f32]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let [half, whole] = weights.clone().map(Digits::with_weights);
    let mut models = [half?, whole?];
    let case = |Digit { image, .. }: Digit| Case {
        pixels: bytes(&image),
        answers: models.each_mut().map(|model| bytes(model.infer(&image))),
    };
    Ok(held_out().map(case).collect())
}

/// Sends requests until `count` were sent, and checks the answers.
fn request(
    mut client: Client,
    cases: &[Case],
    count: usize,
    next: &AtomicUsize,
    [at_start, at_tenth]: &[AtomicUsize; 2],
) -> Result {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return Ok(());
        }
        let case = &cases[number % cases.len()];
        let answer = client.send("POST /", &case.pixels)?;
        if !case.answers.contains(&answer) {
            return Err(format!("request {number} has the answer of neither model").into());
        }
        if number == WORKERS {
            at_start.store(resident::bytes(), Ordering::Relaxed);
        }
        if number == count / 10 {
            at_tenth.store(resident::bytes(), Ordering::Relaxed);
        }
    }
}

/// Replaces the model's weights until the clients are done, alternating between `weights`.
/// Returns the number of replacements.
fn replace(client: &mut Client, weights: &[Vec<u8>; 2], done: &AtomicBool) -> Result<usize> {
    let mut replaced = 0;
    while !done.load(Ordering::Relaxed) {
        client.send("PUT /weights", &weights[replaced % 2])?;
        replaced += 1;
        thread::sleep(PAUSE);
    }
    Ok(replaced)
}

/// A connection that stays open.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: SocketAddr) -> Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Client(BufReader::new(stream)))
    }

    /// Connects and waits for an answer. Clients that connect at once might wait for each other:
    /// `tiny_http` counts a thread as idle until it runs.
    fn open(address: SocketAddr, case: &Case) -> Result<Client> {
        let mut client = Client::connect(address)?;
        client.send("POST /", &case.pixels)?;
        Ok(client)
    }

    /// Sends a request and returns the body of the answer.
    fn send(&mut self, request: &str, body: &[u8]) -> Result<Vec<u8>> {
        let head =
            format!("{request} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        self.0.get_mut().write_all(&[head.as_bytes(), body].concat())?;
        let mut status = String::new();
        self.0.read_line(&mut status)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse()?;
            }
        }
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer)?;
        if !status.contains(" 200 ") {
            return Err(String::from_utf8_lossy(&answer).into());
        }
        Ok(answer)
    }
}

#[test]
fn requests_that_do_not_fit_are_errors_and_keep_the_model() -> Result {
    let folder = folder("errors");
    let models = Models::new(Path::new(WEIGHTS), &folder)?;
    let server = listen("127.0.0.1:0")?;
    let address = server.server_addr().to_ip().ok_or("the server has no address")?;
    let case = cases(&[fs::read(WEIGHTS)?, fs::read(WEIGHTS)?])?.swap_remove(0);
    let answers = thread::scope(|scope| {
        scope.spawn(|| serve(&server, &models));
        let send = |request: &str, body: &[u8]| Client::connect(address)?.send(request, body);
        let answers = [
            send("POST /", &case.pixels[..252]),
            send("PUT /weights", &case.pixels),
            send("GET /", &[]),
            send("POST /", &case.pixels),
        ];
        (0..WORKERS).for_each(|_| server.unblock());
        answers
    });
    let [short, weights, other, right] = answers;
    let text = |answer: Result<Vec<u8>>| answer.err().map(|error| error.to_string());
    let expected = |text: &str| Some(format!("{text}\n"));
    assert_eq!(text(short), expected("input `image`: expected 64 elements, found 63"));
    let bytes = Digits::WEIGHT_BYTES + Trailer::BYTES;
    let expected_weights = format!("expected {bytes} bytes of weights, found 256");
    assert_eq!(text(weights), expected(&expected_weights));
    assert_eq!(text(other), expected("expected POST / or PUT /weights"));
    assert_eq!(right?, case.answers[0]);
    assert_eq!(fs::read_dir(&folder)?.count(), 0, "the file of wrong weights is removed");
    fs::remove_dir(&folder)?;
    Ok(())
}
