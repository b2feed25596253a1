//! Processors that do not halt while a time is taken.
//!
//! A virtual processor without work halts, and it takes the hypervisor some ten
//! microseconds to let it go on. Where two programs on two processors wait for each
//! other, that is most of what a clock sees, whatever the programs do. So each
//! processor has a process that never sleeps, of the class that gives way to all others
//! at once (`SCHED_IDLE`).

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use crate::process;

/// The hidden argument of the process that never sleeps; its processor follows.
pub const CHILD: &str = "--awake";

/// The processors are kept awake until this is dropped.
#[derive(Debug)]
pub struct Awake(Vec<Child>);

impl Awake {
    /// Keeps all processors awake; only if that [`is_possible`].
    #[must_use]
    pub fn keep() -> Self {
        let one = |core: usize| {
            Command::new("chrt")
                // What is nice is told apart in /proc/stat.
                .args(["--idle", "0", "nice", "-n", "19"])
                .arg(std::env::current_exe()?)
                .args([CHILD, &core.to_string()])
                .stdin(Stdio::piped())
                .spawn()
        };
        let children = (0..process::cores()).map(one);
        Self(children.filter_map(Result::ok).collect())
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// What this is for, as a Markdown list item.
#[must_use]
pub fn describe() -> &'static str {
    match is_possible() {
        true => {
            "- A virtual processor without work halts, and to wake it takes longer than to serve
  64 calls. Where each of two waits for the other, a scene is also measured while a process
  of the class that gives way to all others (`SCHED_IDLE`) keeps each processor awake.\n"
        }
        false => "- Processors could not be kept awake: there is no `chrt`.\n",
    }
}

/// Whether there is a program to ask for that class with.
pub fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        let mut chrt = Command::new("chrt");
        chrt.arg("--version").stdout(Stdio::null()).status().is_ok()
    })
}

/// Never sleeps on one processor, until whoever started it has gone.
///
/// # Errors
/// There is no such processor.
pub fn child(core: Option<String>) -> Result<(), String> {
    let core: Option<usize> = core.and_then(|core| core.parse().ok());
    let core = core.ok_or("--awake needs a processor")?;
    std::thread::spawn(|| {
        let ended = std::io::stdin().read(&mut [0]);
        std::process::exit(i32::from(ended.is_err()));
    });
    process::pin_to(core..core + 1).map_err(|e| e.to_string())?;
    // No hint to the processor: a hypervisor takes it for a wish to halt.
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns.wrapping_add(1));
    }
}
