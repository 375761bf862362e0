use std::task::Waker;

use proptest::prelude::*;
use rocketmq_wire::header::NoFields;
use rocketmq_wire::{LanguageCode, Version};

use super::*;

/// Takes as many bytes at a time as it is told, then is full until asked again.
#[derive(Default)]
struct Recorder {
    taken: Vec<u8>,
    /// How much each write takes, over and over; 0 means that the stream is full once.
    sizes: Vec<usize>,
    calls: usize,
    vectored: usize,
}

impl Recorder {
    fn take(&mut self, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let size = self.sizes.get(self.calls % self.sizes.len().max(1)).copied().unwrap_or(usize::MAX);
        self.calls += 1;
        if size == 0 {
            return Poll::Pending;
        }
        let mut left = size;
        for slice in slices {
            let part = slice.len().min(left);
            self.taken.extend_from_slice(&slice[..part]);
            left -= part;
        }
        Poll::Ready(Ok(size - left))
    }
}

impl AsyncWrite for Recorder {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().take(&[IoSlice::new(bytes)])
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.vectored += 1;
        this.take(slices)
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn head(opaque: i32) -> Head<'static> {
    Head { code: 310, language: LanguageCode::RUST, version: Version::V5_3_3, opaque, flag: 0, remark: None }
}

fn add(output: &mut Output, opaque: i32, body: &Bytes) {
    output.open().frame(SerializeType::Binary, &head(opaque), &NoFields, body, 1).expect("fits a frame");
}

/// The same frames, laid without any cleverness.
fn expected(bodies: &[Bytes]) -> Vec<u8> {
    let mut out = BytesMut::new();
    for (opaque, body) in bodies.iter().enumerate() {
        encode(&mut out, SerializeType::Binary, &head(opaque as i32), &NoFields, body.len()).expect("fits a frame");
        out.extend_from_slice(body);
    }
    out.to_vec()
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Writes all there is, in rounds of at most `budget`; returns the admitted bytes reported.
fn write_all(writer: &mut Writer<Recorder>, output: &mut Output, budget: usize) -> usize {
    let mut reported = 0;
    loop {
        if !writer.is_busy() && !writer.take(output) {
            return reported;
        }
        let before = writer.stream.as_ref().map_or(0, |stream| stream.taken.len());
        let mut left = budget;
        if let Poll::Ready(progress) = writer.poll_write(&mut context(), &mut left)
            && let Progress::Written(admitted) = progress.expect("never fails")
        {
            reported += admitted;
        }
        let after = writer.stream.as_ref().map_or(0, |stream| stream.taken.len());
        assert!(after - before <= budget);
        assert_eq!(budget - left, after - before);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_goes_in_comes_out_whatever_the_stream_takes(
        lengths in proptest::collection::vec(
            prop_oneof![0..200_usize, SEPARATE_BODY - 2..SEPARATE_BODY + 2, Just(SEPARATE_BODY * 3)], 1..40),
        sizes in proptest::collection::vec(prop_oneof![0..100_usize, 0..100_000_usize], 1..5)
            .prop_filter("a stream that is always full takes nothing", |sizes| sizes.iter().any(|&size| size > 0)),
        budget in prop_oneof![1..1000_usize, 1000..1_000_000_usize],
    ) {
        let bodies: Vec<_> = lengths.iter().enumerate().map(|(at, &length)| Bytes::from(vec![at as u8; length])).collect();
        let mut writer = Writer::new(Recorder { sizes, ..Recorder::default() });
        let mut output = Output::new();
        for (opaque, body) in bodies.iter().enumerate() {
            add(&mut output, opaque as i32, body);
        }
        prop_assert_eq!(output.turn(true), Turn::Write);
        prop_assert_eq!(write_all(&mut writer, &mut output, budget), bodies.len());
        prop_assert!(writer.stream.expect("open").taken == expected(&bodies));
        prop_assert!(output.is_idle());
    }
}

#[test]
fn small_frames_share_one_write_and_large_bodies_are_not_copied() {
    let mut writer = Writer::new(Recorder::default());
    let mut output = Output::new();
    for opaque in 0..100 {
        add(&mut output, opaque, &Bytes::from_static(b"small"));
    }
    assert_eq!(output.turn(true), Turn::Write);
    write_all(&mut writer, &mut output, usize::MAX);
    assert_eq!(writer.writes(), 1);
    let large = Bytes::from(vec![1; SEPARATE_BODY]);
    add(&mut output, 100, &large);
    assert!(output.open().buffer.len() < 100, "only the header is in the buffer");
    assert_eq!(output.turn(true), Turn::Write);
    write_all(&mut writer, &mut output, usize::MAX);
    assert_eq!((writer.writes(), writer.stream.expect("open").vectored), (2, 1));
}

#[test]
fn memory_of_a_burst_is_given_back_and_that_of_steady_traffic_is_kept() {
    let mut writer = Writer::new(Recorder::default());
    let mut output = Output::new();
    for count in [1000, 1, 1] {
        for opaque in 0..count {
            add(&mut output, opaque, &Bytes::from(vec![0; 1000]));
        }
        output.turn(true);
        write_all(&mut writer, &mut output, usize::MAX);
    }
    assert!(writer.chunk.buffer.capacity() + output.open.buffer.capacity() <= 2 * KEPT_CAPACITY);
    let kept = [writer.chunk.buffer.as_ptr(), output.open.buffer.as_ptr()];
    for opaque in 0..10 {
        add(&mut output, opaque, &Bytes::from_static(b"x"));
        output.turn(true);
        write_all(&mut writer, &mut output, usize::MAX);
    }
    assert!(kept.contains(&writer.chunk.buffer.as_ptr()));
}

#[test]
fn a_frame_that_cannot_be_encoded_leaves_nothing() {
    let mut output = Output::new();
    let remark = "x".repeat(16 << 20);
    let too_long = Head { remark: Some(remark.into()), ..head(0) };
    let result = output.open().frame(SerializeType::Binary, &too_long, &NoFields, &Bytes::new(), 1);
    assert!(matches!(result, Err(EncodeError::TooLarge { .. })));
    assert!(output.open.is_empty());
    assert_eq!(output.open.admitted, 0);
}

#[test]
fn one_leads_and_the_others_follow() {
    let mut output = Output::new();
    let Turn::Claim(claim) = output.turn(false) else { panic!("nobody leads yet") };
    assert_eq!(output.turn(false), Turn::Follow);
    assert!(!output.begin(claim + 1));
    assert!(output.begin(claim));
    assert!(!output.begin(claim), "it has begun");
    assert_eq!(output.turn(false), Turn::Follow);
    assert_eq!(output.turn(true), Turn::Follow);
    output.hand_over();
    assert!(output.is_drivers_turn());
    assert_eq!(output.turn(true), Turn::Follow);
}

#[test]
fn a_claim_can_be_taken_over() {
    let mut output = Output::new();
    let Turn::Claim(claim) = output.turn(false) else { panic!("nobody leads yet") };
    assert_eq!(output.turn(true), Turn::Write, "who is in a hurry does not wait for a claim");
    assert!(!output.begin(claim));
}

#[test]
fn watching_finds_claims_that_stand_and_ends_when_there_are_none() {
    let mut output = Output::new();
    let Turn::Claim(claim) = output.turn(false) else { panic!("nobody leads yet") };
    assert!(output.watch() && !output.watch());
    let mut seen = output.claims_before();
    output.look(&mut seen);
    assert_eq!(output.claim(), Some(claim), "it may be new");
    output.look(&mut seen);
    assert!(output.is_drivers_turn(), "it is not");
    let mut writer = Writer::new(Recorder::default());
    assert!(!writer.take(&mut output));
    output.turn(false);
    assert!(output.begin(claim + 1));
    assert!(!writer.take(&mut output));
    output.look(&mut seen);
    assert!(output.is_watched(), "there was a claim since");
    output.look(&mut seen);
    assert!(!output.is_watched());
}

#[test]
fn a_stream_that_takes_nothing_or_is_gone_is_an_error() {
    struct Stuck;
    impl AsyncWrite for Stuck {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(0))
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }
    let mut output = Output::new();
    let mut writer = Writer::new(Stuck);
    add(&mut output, 0, &Bytes::from_static(b"x"));
    assert!(writer.take(&mut output));
    let kind = |poll: Poll<io::Result<Progress>>| match poll {
        Poll::Ready(Err(error)) => error.kind(),
        other => panic!("no error: {other:?}"),
    };
    assert_eq!(kind(writer.poll_write(&mut context(), &mut 100)), io::ErrorKind::WriteZero);
    writer.close();
    add(&mut output, 1, &Bytes::from_static(b"x"));
    assert!(writer.take(&mut output));
    assert_eq!(kind(writer.poll_write(&mut context(), &mut 100)), io::ErrorKind::NotConnected);
}
