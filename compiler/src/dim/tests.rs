//! One normal form for equal sizes.

use super::*;

#[test]
fn equal_sizes_have_one_form() {
    let n = Dim::symbol("n");
    let square = (&n + 1) * (&n + 1);
    assert_eq!(square, &n * &n + &n * 2 + 1);
    assert_eq!(format!("{square:?}"), "n * n + 2 * n + 1");
    assert_eq!((&n * 6 + 4).floor_div(&2.into()), &n * 3 + 2);
    assert_eq!((&n * 6).floor_div(&n), 6.into());
    assert_eq!(Dim::from(10).ceil_div(&i64::MAX.into()), 1.into());
}

#[test]
fn expressions_are_rust() {
    let n = Dim::symbol("n");
    let half = (&n + 1).floor_div(&2.into());
    assert_eq!(format!("{half:?}"), "(n + 1) / 2");
    assert_eq!(format!("{:?}", (&n - 3).at_least(&0.into())), "n.saturating_sub(3)");
    assert_eq!(format!("{:?}", Dim::from(7) - &n), "7 - n");
    assert_eq!(format!("{:?}", n.at_most(&3.into())), "n.min(3)");
    assert_eq!(n.at_most(&3.into()), Dim::from(3).at_most(&n));
}

#[test]
fn a_named_subexpression_is_printed_by_its_name() {
    let n = Dim::symbol("n");
    let half = (&n + 1).floor_div(&2.into());
    let names = |dim: &Dim| (*dim == half).then(|| "half".to_owned());
    assert_eq!((&half * 3 + 1).expression(&names), "3 * half + 1");
    assert_eq!((&half + 1).expression(&names), "half + 1");
    assert_eq!((&half + 1).floor_div(&2.into()).expression(&names), "(half + 1) / 2");
    assert_eq!((&half + 1).expression(&|_| None), "(n + 1) / 2 + 1");
}

#[test]
fn no_expression_dips_below_zero() {
    let (n, m) = (Dim::symbol("n"), Dim::symbol("m"));
    assert_eq!(format!("{:?}", (&n - 1).less(&0.into())), "usize::from(n < 1)");
    assert_eq!(format!("{:?}", (&n - 1).equal(&m)), "usize::from(n == m + 1)");
    assert_eq!(format!("{:?}", (&n - 1).at_least(&m)), "m.max(n.saturating_sub(1))");
    assert_eq!(format!("{:?}", n.at_least(&m)), "n.max(m)");
    assert_eq!(format!("{:?}", &n + i64::MIN), "n - 9223372036854775808");
    let cut = (&n - 3).at_most(&(&m - 5));
    let text = "n.saturating_sub(3).min(m.saturating_sub(5))";
    assert_eq!(format!("{cut:?}"), text);
    assert_eq!(format!("{:?}", cut.at_least(&0.into())), text);
}

#[test]
fn a_saturating_expression_needs_no_premises() {
    let (n, m) = (Dim::symbol("n"), Dim::symbol("m"));
    let text = |dim: &Dim| dim.saturating_expression(&|_| None);
    let pooled = (&n - 3).floor_div(&2.into());
    assert_eq!(text(&pooled), "n.saturating_sub(3) / 2");
    assert_eq!(text(&(&pooled + 1)), "(n.saturating_sub(3) / 2).saturating_add(1)");
    assert_eq!(text(&(&pooled - &m)), "(n.saturating_sub(3) / 2).saturating_sub(m)");
    assert_eq!(text(&n.floor_div(&m)), "n / m.max(1)");
    assert_eq!(text(&n.floor_div(&(&m + 1))), "n / m.saturating_add(1)");
    assert_eq!(
        text(&(&n * &m * 3 + &n)),
        "n.saturating_add(m.saturating_mul(n).saturating_mul(3))"
    );
}

#[test]
fn premises_are_the_conditions_of_an_expression() {
    let (n, m) = (Dim::symbol("n"), Dim::symbol("m"));
    let premises = |dim: &Dim| {
        let mut found = Vec::new();
        dim.premises(&mut found);
        found
    };
    let pooled = (&n - 3).floor_div(&2.into()) + 1;
    assert_eq!(premises(&pooled), [(&n - 3, 0)]);
    assert_eq!(premises(&n.floor_div(&m)), [(m.clone(), 1)]);
    let nested = (&pooled - 3).floor_div(&2.into());
    assert_eq!(premises(&nested), [(&pooled - 3, 0), (&n - 3, 0)]);
    let cut = (&n - 3).at_most(&m);
    assert_eq!(premises(&cut), [(&n - 3, 0)]);
    assert_eq!(premises(&cut.at_least(&0.into())), []);
    assert_eq!(premises(&(&n + 1).floor_div(&2.into())), []);
}

#[test]
fn checked_arithmetic_stays_in_range() {
    let (n, far) = (Dim::symbol("n"), Dim::from(i64::MAX));
    assert_eq!(far.checked_add(&1.into()), None);
    assert_eq!(far.checked_sub(&(-1).into()), None);
    assert_eq!((&n * i64::MAX).checked_mul(&2.into()), None);
    assert_eq!(n.checked_add(&far), Some(&n + i64::MAX));
    assert_eq!(n.checked_mul(&n), Some(&n * &n));
    assert_eq!((&n * i64::MIN).solve_zero(), None);
}

#[test]
fn division_by_a_size_of_zero_gives_zero() {
    let (n, m) = (Dim::symbol("n"), Dim::symbol("m"));
    assert_eq!(n.floor_div(&m).substitute("m", &0.into()), 0.into());
    assert_eq!(n.floor_div(&m).eval(&|name| if name == "n" { 7 } else { -2 }), 0);
}

#[test]
fn bounds_follow_the_signs() {
    let (n, m) = (Dim::symbol("n"), Dim::symbol("m"));
    let bound = |name: &str| (name == "n").then_some(32);
    assert_eq!((&n * 2 + 5).upper(&bound), Some(69));
    assert_eq!((Dim::from(5) - &n).upper(&bound), Some(5));
    assert_eq!((Dim::from(5) - &m).upper(&bound), Some(5));
    assert_eq!((&n * &m).upper(&bound), None);
    assert_eq!(m.at_most(&n).upper(&bound), Some(32));
}

#[test]
fn a_quotient_is_in_lowest_terms() {
    let (n, m) = (Dim::symbol("n"), Dim::symbol("m"));
    let quotient = (&n * &m * 6 + &n * 4).floor_div(&(&n * 10));
    assert_eq!(quotient, (&m * 3 + 2).floor_div(&5.into()));
    assert_eq!(format!("{quotient:?}"), "(3 * m + 2) / 5");
    assert_eq!(quotient.eval(&|_| 0), 0);
}

#[test]
fn a_size_broadcasts_with_its_minimum() {
    let (n, m) = (Dim::symbol("n"), Dim::symbol("m"));
    let cut = n.at_most(&512.into());
    assert_eq!(n.broadcast(&cut), Some(n.clone()));
    assert_eq!(cut.broadcast(&n), Some(n.clone()));
    let both = n.broadcast(&m).expect("free symbols may broadcast");
    assert_eq!(both.broadcast(&m), Some(both.clone()));
    assert_ne!(n.broadcast(&m.at_most(&512.into())), Some(n.clone()));
    assert_ne!(n.broadcast(&n.at_most(&1.into())), Some(n));
}

#[test]
fn a_quotient_times_its_divisor_is_no_more_than_the_dividend() {
    let (n, m) = (Dim::symbol("n"), Dim::symbol("m"));
    let bound = |_: &str| Some(10);
    let rows = (&n * &n * 12).floor_div(&(&m * 5));
    assert_eq!((&rows * &m * 15).upper(&bound), Some(3600));
    assert_eq!((&rows * &m * 4).upper(&bound), Some(960));
    assert_eq!(rows.upper(&bound), Some(1200));
}

#[test]
fn an_equation_settles_an_atom() {
    let n = Dim::symbol("n");
    let steps = (&n - 3).floor_div(&64.into()) + 1;
    let (atom, value) = (&steps - 1).solve_zero().expect("one term is an atom");
    assert_eq!((&steps * 5).replace(&atom, &value), 5.into());
}

#[test]
fn a_symbol_can_be_settled_later() {
    let (n, m) = (Dim::symbol("n"), Dim::symbol("m"));
    let size = (&n * &m + 3).floor_div(&4.into());
    assert_eq!(size.substitute("n", &5.into()).substitute("m", &1.into()), 2.into());
    assert_eq!(n.equal(&m).substitute("n", &m), 1.into());
    let eval = |name: &str| if name == "n" { 5 } else { 2 };
    assert_eq!(size.eval(&eval), 3);
}
