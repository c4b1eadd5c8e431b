//! What the programs for Rust's clients have in common; it is copied beside each.

use std::error::Error;
use std::fmt::Debug;
use std::io::Write;
use std::time::{Duration, Instant};

pub const COUNT: usize = 100;
pub const FIRST_MS: i64 = 1_600_000_000_000;
pub const PATIENCE: Duration = Duration::from_secs(20);

pub type Said = Result<String, Box<dyn Error + Send + Sync>>;
pub type Done<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// What the client can't do, as the cell will say it.
#[derive(Debug)]
pub struct NotSupported(pub String);

impl std::fmt::Display for NotSupported {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl Error for NotSupported {}

pub struct Asked {
    pub scenario: String,
    pub bootstrap: String,
    pub topic: String,
}

pub fn asked() -> Asked {
    let mut words = std::env::args().skip(1);
    let mut next = || words.next().expect("SCENARIO BOOTSTRAP TOPIC");
    Asked { scenario: next(), bootstrap: next(), topic: next() }
}

/// Ends the process as the matrix reads it.
pub fn end(said: Said) -> ! {
    let status = match said {
        Ok(text) => {
            if !text.is_empty() {
                println!("{text}");
            }
            0
        }
        Err(error) if error.is::<NotSupported>() => {
            println!("{error}");
            77
        }
        Err(error) => {
            eprintln!("Error: {error}");
            1
        }
    };
    std::process::exit(status)
}

pub fn not_supported<T>(why: &str) -> Done<T> {
    Err(Box::new(NotSupported(why.to_owned())))
}

pub fn same<T: PartialEq + Debug>(found: T, wanted: T) -> Done {
    if found == wanted {
        return Ok(());
    }
    let short = |value: &T| format!("{value:?}").chars().take(300).collect::<String>();
    Err(format!("found {}, not {}", short(&found), short(&wanted)).into())
}

pub fn values(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|number| format!("value {number}")).collect()
}

pub fn large_ones() -> Vec<String> {
    ["A", "B", "C", "D", "E"].iter().map(|letter| letter.repeat(900_000)).collect()
}

pub fn strings(words: &str) -> Vec<String> {
    words.split(' ').map(str::to_owned).collect()
}

/// True when it is time to give up.
pub fn deadline(within: Duration) -> impl Fn() -> bool {
    let began = Instant::now();
    move || began.elapsed() > within
}

pub fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Returns when the broker is back.
pub fn await_restart() -> Done {
    println!("restart");
    std::io::stdout().flush()?;
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
