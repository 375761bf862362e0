//! Child processes that never outlive the test.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// A running program whose output goes to a log file and, line by line, to whoever reads it.
///
/// It is killed when dropped, and by a guard when the test process ends without dropping it: because it is a static, or
/// because the test process was itself killed.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    guard: Option<Guard>,
    input: Option<ChildStdin>,
    log: PathBuf,
}

impl Process {
    /// Starts the command. What it prints is appended to `log`; `on_line` is called with each line of its standard
    /// output, on a thread of its own.
    ///
    /// # Panics
    ///
    /// When the program cannot be started.
    pub fn start(
        name: &str,
        command: &mut Command,
        log: &Path,
        mut on_line: impl FnMut(&str) + Send + 'static,
    ) -> Self {
        let mut file = open_log(log);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file.try_clone().expect("a file handle can be cloned"))
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started by {:?}: {error}", command.get_program()));
        let input = child.stdin.take();
        let output = child.stdout.take().expect("piped above");
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // The log is for people: a full disk must not fail the test for a second reason.
                let _ = writeln!(file, "{line}");
                on_line(&line);
            }
        });
        let guard = Some(Guard::start(child.id()));
        Self { name: name.to_owned(), child, guard, input, log: log.to_owned() }
    }

    /// Starts the command and waits until it prints a line that contains `text`.
    ///
    /// # Errors
    ///
    /// What was printed last, when the program ends first or prints nothing of the kind within the limit. It is then
    /// killed.
    pub fn start_and_wait(
        name: &str,
        command: &mut Command,
        log: &Path,
        text: &'static str,
        limit: Duration,
    ) -> Result<Self, String> {
        let (found, waiting) = mpsc::channel();
        let process = Self::start(name, command, log, move |line| {
            if line.contains(text) {
                // Printed again after the wait is over: nobody listens.
                let _ = found.send(());
            }
        });
        match await_signal(&waiting, limit) {
            Ok(()) => Ok(process),
            Err(reason) => Err(format!("{name} {reason} before it printed `{text}`:\n{}", process.log_tail())),
        }
    }

    /// The name given at the start.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes one line to its standard input.
    ///
    /// # Panics
    ///
    /// When the program has ended, with the end of its log.
    pub fn write_line(&mut self, line: &str) {
        let written = match &mut self.input {
            Some(input) => input.write_all(format!("{line}\n").as_bytes()).and_then(|()| input.flush()),
            None => panic!("{} is being stopped", self.name),
        };
        if let Err(error) = written {
            panic!("{} does not read its input ({error}); its log ends with:\n{}", self.name, self.log_tail());
        }
    }

    /// Closes its standard input and waits until it ends by itself; kills it when that takes longer than the limit.
    pub fn finish(&mut self, limit: Duration) -> ExitStatus {
        self.input = None;
        self.wait(limit)
    }

    /// Asks it to end with SIGTERM.
    pub fn terminate(&self) {
        let kill = format!("kill -TERM {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().expect("a system has a shell");
        assert!(status.success(), "{} runs no more: {status}", self.name);
    }

    /// Ends it at once, as `kill -9` does, and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        // Before its id is free for another process.
        self.guard = None;
        let _ = self.child.wait();
    }

    /// Waits until it ends by itself; kills it when that takes longer than the limit.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    self.guard = None;
                    return status;
                }
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                Ok(None) => {
                    self.kill();
                    panic!("{} did not end within {limit:?}; its log ends with:\n{}", self.name, self.log_tail());
                }
                Err(error) => panic!("{} cannot be waited for: {error}", self.name),
            }
        }
    }

    /// The last lines of its log, and where the whole is.
    pub fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let shown = lines[lines.len().saturating_sub(20)..].iter();
        let shown: String = shown.flat_map(|line| line.chars().take(300).chain(['\n'])).collect();
        format!("{shown}(whole log: {})", self.log.display())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("log of {}: {}", self.name, self.log.display());
        }
    }
}

/// A shell that kills a process as soon as the pipe to it closes, which it does however this process ends.
#[derive(Debug)]
struct Guard(Child);

impl Guard {
    fn start(id: u32) -> Self {
        let shell = Command::new("sh")
            .args(["-c", &format!("cat >/dev/null; kill -KILL {id}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(shell.expect("a system has a shell"))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Before its input closes.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks again and again until the answer is there.
///
/// # Panics
///
/// When the limit passes first, saying what was awaited.
pub fn poll<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not within {limit:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn open_log(path: &Path) -> File {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap_or_else(|error| panic!("the log {} cannot be written: {error}", path.display()))
}

fn await_signal(waiting: &Receiver<()>, limit: Duration) -> Result<(), String> {
    waiting.recv_timeout(limit).map_err(|error| match error {
        RecvTimeoutError::Timeout => format!("waited {limit:?}"),
        RecvTimeoutError::Disconnected => "ended".to_owned(),
    })
}
