mod explicit;
mod heap;
mod stream;

fn main() {
    static STREAM: std::sync::Mutex<stream::Stream> =
        std::sync::Mutex::new(stream::Stream::new());
    let mut model = STREAM.lock().unwrap();
    let (mut heap, mut explicit) = (heap::Heap::new(), explicit::Explicit::new());
    let steps = [[0.5, 1.0], [-1.0, 0.25], [2.0, -0.5], [0.0, 0.75]];
    for _ in 0..2 {
        let (mut h, mut past) = (None, [0.0; 3]);
        for x in &steps {
            let expected = explicit.infer(x, h.as_ref(), &past).unwrap();
            assert_eq!(model.infer(x).unwrap(), expected.y);
            assert_eq!(heap.infer(x).unwrap(), expected.y);
            (h, past) = (Some(*expected.h_next), *expected.sum);
        }
        // The model has kept `h`, so the result differs from the one without it.
        let first = explicit.infer(&steps[0], None, &past).unwrap();
        assert_ne!(model.infer(&steps[0]).unwrap(), first.y);
        model.reset();
        heap.reset();
    }
    // A clone has a state of its own.
    let mut copy = model.clone();
    let first = *model.infer(&steps[0]).unwrap();
    assert_ne!(*model.infer(&steps[0]).unwrap(), first);
    assert_eq!(*copy.infer(&steps[0]).unwrap(), first);
}
