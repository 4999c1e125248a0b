use super::pool::Pool;
use super::{By, Scratch, Share, share};
use core::mem::forget;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::boxed::Box;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::OnceLock;
use std::{thread, vec, vec::Vec};

fn pool(threads: usize) -> &'static Pool {
    let pool: &Pool = Box::leak(Box::new(Pool::new(threads)));
    pool.start();
    pool
}

#[test]
fn each_part_is_computed_once() {
    let pool = pool(3);
    for parts in [1, 2, 3, 4, 7, 100] {
        for _ in 0..200 {
            let counts: Vec<_> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
            pool.run(parts, &|i| {
                counts[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }
}

#[test]
fn threads_that_went_to_sleep_are_woken() {
    let pool = pool(2);
    for _ in 0..20 {
        thread::sleep(super::pool::PATIENCE * 3);
        let sum = AtomicUsize::new(0);
        pool.run(3, &|i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 3);
    }
}

#[test]
fn nested_work_and_work_of_several_callers_completes() {
    let pool = pool(2);
    let sum = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..100 {
                    pool.run(4, &|_| {
                        pool.run(2, &|i| {
                            sum.fetch_add(i, Ordering::Relaxed);
                        });
                    });
                }
            });
        }
    });
    assert_eq!(sum.into_inner(), 3 * 100 * 4);
}

#[test]
fn a_panic_propagates_to_the_caller_and_the_pool_survives() {
    let pool = pool(2);
    for guilty in 0..4 {
        let run = || pool.run(4, &|i| assert_ne!(i, guilty));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    }
    pool.run(4, &|_| {});
}

#[test]
fn all_parts_finish_before_a_panic_propagates() {
    struct Left;
    impl Drop for Left {
        fn drop(&mut self) {
            panic!("what a panic leaves is dropped")
        }
    }
    // The pool has no threads, so it can be a local static; those of other tests are leaked.
    static POOL: OnceLock<Pool> = OnceLock::new();
    let (pool, done) = (POOL.get_or_init(|| Pool::new(0)), AtomicUsize::new(0));
    let run = || {
        pool.run(3, &|i| {
            done.fetch_add(1, Ordering::Relaxed);
            if i < 2 {
                panic_any(Left);
            }
        });
    };
    forget(catch_unwind(AssertUnwindSafe(run)));
    assert_eq!(done.into_inner(), 3);
}

#[test]
fn parts_are_whole_units_and_cover_all() {
    for (len, unit) in [(0, 1), (1, 1), (100, 7), (1000, 1000), (1001, 500), (4096, 1)] {
        let mut y = vec![usize::MAX; len];
        share(&mut y, unit, usize::MAX, |first, part| {
            let scratch = &mut [0.0_f32; 8];
            Scratch::new(scratch).with(|scratch| assert_eq!(scratch.len(), 8));
            for (i, y) in part.iter_mut().enumerate() {
                *y = first * unit + i;
            }
        });
        assert!(y.iter().enumerate().all(|(i, &y)| i == y));
    }
}

/// Fills rows of planes piece by piece, and returns the number of pieces.
fn fill(y: &mut [usize], [planes, len, row]: [usize; 3], by: By) -> usize {
    let pieces = AtomicUsize::new(0);
    Share::of(y, len).hand_out(row, by, usize::MAX, |mut piece| {
        pieces.fetch_add(1, Ordering::Relaxed);
        assert_eq!(piece.y.planes(), piece.planes.len());
        assert!(piece.planes.end <= planes);
        for (i, plane) in piece.planes.enumerate() {
            let y = piece.y.plane(i);
            for (at, y) in (plane * len + piece.rows.start * row..).zip(y) {
                assert_eq!(*y, usize::MAX);
                *y = at;
            }
        }
    });
    pieces.into_inner()
}

#[test]
fn pieces_are_whole_rows_and_cover_all() {
    super::start(4);
    for by in [By::Rows, By::OnlyRows, By::Planes] {
        for [planes, len, row] in [[1, 100, 7], [5, 3, 3], [7, 64, 16], [2, 9, 3], [40, 1, 1]] {
            let mut y = vec![usize::MAX; planes * len];
            let pieces = fill(&mut y, [planes, len, row], by);
            assert!(y.iter().enumerate().all(|(i, &y)| i == y), "{by:?} {planes} {len} {row}");
            let rows = len.div_ceil(row);
            let most = if matches!(by, By::OnlyRows) { rows } else { planes * rows };
            assert!((most.min(2)..=4).contains(&pieces), "{pieces} {by:?} {planes} {len} {row}");
        }
    }
    for planes in [0, 3] {
        fill(&mut [], [planes, 0, 4], By::Rows);
    }
}

#[test]
fn a_part_of_a_share_is_a_range_of_its_planes() {
    let mut y: Vec<usize> = (0..60).collect();
    let mut share = Share::of(&mut y, 12);
    let mut part = share.part(1..4, 2..7);
    part.skip(1);
    assert_eq!([part.planes(), part.len(), part.apart()], [2, 5, 12]);
    assert_eq!(part.plane(1), [38, 39, 40, 41, 42]);
    assert!(catch_unwind(AssertUnwindSafe(|| part.plane(2).len())).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| share.part(0..6, 0..1).len())).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| share.part(0..1, 0..13).len())).is_err());
}
