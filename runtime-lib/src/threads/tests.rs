use super::pool::Pool;
use super::shared::{Scratch, share};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::boxed::Box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{thread, vec, vec::Vec};

fn pool(threads: usize) -> &'static Pool {
    let pool: &Pool = Box::leak(Box::new(Pool::new(threads)));
    pool.start();
    pool
}

#[test]
fn each_part_is_done_once() {
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
fn work_within_work_and_of_several_callers_is_done() {
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
fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
    let pool = pool(2);
    for guilty in 0..4 {
        let run = || pool.run(4, &|i| assert_ne!(i, guilty));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    }
    pool.run(4, &|_| {});
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
