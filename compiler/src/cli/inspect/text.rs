//! The facts as text.

use super::{
    budget::Use,
    facts::{Facts, Fullest, buffer_type},
};
use onnxc::{
    byte_count::grouped,
    diag::{counted, line, quoted, visible},
    emit::ArenaIn,
};
use std::fmt::Write;

/// The number of nodes, buffers and reasons that are listed.
const MOST: usize = 10;

/// Returns the page of the facts.
pub fn page(facts: &Facts<'_>) -> String {
    let sections = [
        head(facts),
        interface(facts),
        size(facts),
        budget(facts),
        operators(facts),
        arena(facts),
        costs(facts),
        free_sizes(facts),
        fusion(facts),
        heap(facts),
    ];
    let sections: Vec<String> = sections.into_iter().filter(|text| !text.is_empty()).collect();
    sections.join("\n")
}

fn head(facts: &Facts<'_>) -> String {
    let info = &facts.plan.info;
    let mut text = format!("{}: ONNX IR version {}", facts.name, info.ir_version);
    let sets = facts.operator_sets().join(", ");
    let producer = if info.producer.is_empty() { "" } else { ", written by " };
    _ = write!(text, ", operator sets {sets}{producer}{}", info.producer);
    format!("{}\n", visible(&text))
}

fn interface(facts: &Facts<'_>) -> String {
    let rows = facts.ports().map(|(kind, port)| {
        let default = if port.default.is_some() && kind == "input" { "has a default" } else { "" };
        [kind.to_owned(), port.name.clone(), port.ty.to_string(), default.to_owned()]
    });
    section("interface", &table(&rows.collect::<Vec<_>>(), &[]))
}

fn size(facts: &Facts<'_>) -> String {
    let plan = facts.plan;
    let number = |n: u64, unit: &str, note: String| [grouped(n), unit.to_owned(), note];
    let weights = facts.weights.iter().map(|(dtype, weights)| {
        let (bytes, count) = (grouped(weights.bytes as u64), weights.count);
        format!("{dtype}: {bytes} in {count} constant{}", if count == 1 { "" } else { "s" })
    });
    let weights = weights.collect::<Vec<_>>().join("; ");
    let place = match facts.arena {
        ArenaIn::Struct => "in the struct",
        ArenaIn::Heap => "on the heap",
        ArenaIn::Caller => "with the caller",
    };
    let arena = match facts.arena_bytes() {
        Some(bytes) => number(bytes as u64, "bytes", place.to_owned()),
        None => ["free".into(), String::new(), "each run lays it out; see `arena_bytes`".into()],
    };
    let macs = match plan.free_macs.is_empty() {
        true => number(plan.macs, "", String::new()),
        false => ["free".into(), String::new(), "they depend on the free sizes".into()],
    };
    let rows = [
        ("parameters", number(facts.parameters, "", String::new())),
        ("multiply-adds", macs),
        ("weights", number(plan.weight_bytes as u64, "bytes", weights)),
        ("arena", arena),
    ];
    let rows = rows.map(|(name, [number, unit, note])| [name.to_owned(), number, unit, note]);
    let mut text = section("size", &table(&rows, &[1]));
    for (name, plan) in facts.plans.iter().skip(1) {
        let macs = grouped(plan.macs);
        _ = writeln!(text, "  `{name}` takes {macs} multiply-adds, in the same arena");
    }
    text
}

fn budget(facts: &Facts<'_>) -> String {
    let lines: Vec<String> = facts.budget.iter().map(budget_line).collect();
    if lines.is_empty() { String::new() } else { section("budget", &lines) }
}

fn budget_line(of: &Use) -> String {
    let (memory, limit) = (of.memory, grouped(of.limit as u64));
    let Some(used) = of.used else {
        return format!("{memory}  depends on the free sizes: fix them with `--dim`");
    };
    let text = format!("{memory:<5}  {} of {limit} bytes", grouped(used as u64));
    if used <= of.limit {
        return format!("{text}: fits, {} bytes remain", grouped((of.limit - used) as u64));
    }
    let tightest = of.tightest.as_deref().unwrap_or_default();
    let over = grouped((used - of.limit) as u64);
    format!("{text}: {over} bytes too many; {tightest}")
}

fn operators(facts: &Facts<'_>) -> String {
    let rows: Vec<[String; 3]> = facts
        .operators
        .iter()
        .map(|(name, counts)| [name.clone(), counts[0].to_string(), counts[1].to_string()])
        .collect();
    let mut lines = table(&rows, &[1, 2]);
    let [before, after] = [0, 1].map(|i| facts.operators.iter().map(|(_, n)| n[i]).sum::<usize>());
    lines.push(format!("{} in the model, {after} after the passes", counted(before, "node")));
    section("operators, before and after the passes", &lines)
}

fn arena(facts: &Facts<'_>) -> String {
    let Some(Fullest { step, node, moment }) = &facts.fullest else { return String::new() };
    let mut lines = vec![
        format!("at step {} of {}: {}", step[0], step[1], quoted(node)),
        format!("{} bytes are live:", grouped(moment.bytes as u64)),
    ];
    let rows = moment.live.iter().take(MOST).map(|occupant| {
        let buffer = &facts.plan.buffers[occupant.buffer];
        [grouped(occupant.bytes as u64), buffer_type(buffer), buffer.name.clone()]
    });
    lines.extend(table(&rows.collect::<Vec<_>>(), &[0]));
    lines.extend(more(moment.live.len()));
    section("the arena at its fullest", &lines)
}

fn costs(facts: &Facts<'_>) -> String {
    if !facts.plan.free_macs.is_empty() {
        let names: Vec<String> =
            facts.sizes.iter().map(|size| format!("--dim {}=N", size.name)).collect();
        let text = format!("they depend on the free sizes: set {}", quoted(&names.join(" ")));
        return section("the costliest nodes", &[text]);
    }
    let all: u64 = facts.costs.iter().map(|cost| cost.operations).sum();
    if all == 0 {
        return String::new();
    }
    let rows = facts.costs.iter().take(MOST).map(|cost| {
        let share = 100.0 * cost.operations as f64 / all as f64;
        [
            format!("{share:.1} %"),
            grouped(cost.macs),
            grouped(cost.bytes),
            format!("{} ({})", cost.name, cost.operator),
            cost.kernels.join(", "),
        ]
    });
    let head = ["share", "multiply-adds", "bytes", "node", "kernels"].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(rows).collect();
    section("the costliest nodes", &table(&rows, &[0, 1, 2]))
}

fn free_sizes(facts: &Facts<'_>) -> String {
    let lines: Vec<String> = facts
        .sizes
        .iter()
        .map(|size| {
            let most = size.max.map_or(String::new(), |max| format!(", at most {max}"));
            format!("{}{most}: {}", quoted(&size.name), size.bound_by.join(", "))
        })
        .collect();
    if lines.is_empty() { String::new() } else { section("free sizes", &lines) }
}

fn fusion(facts: &Facts<'_>) -> String {
    let mut lines = Vec::new();
    for (into, nodes) in facts.fused.iter().take(MOST) {
        lines.push(format!("{into} computes {} nodes: {}", nodes.len(), nodes.join(", ")));
    }
    lines.extend(more(facts.fused.len()));
    let [folded, removed] = facts.gone;
    let folded = counted(folded, "node");
    lines.push(format!("{folded} folded to constants or sizes, {removed} removed"));
    for (node, reason) in facts.unfused.iter().take(MOST) {
        lines.push(format!("{node} stays apart: {reason}"));
    }
    lines.extend(more(facts.unfused.len()));
    section("fused and folded", &lines)
}

fn heap(facts: &Facts<'_>) -> String {
    let mut rows: Vec<[String; 3]> = Vec::new();
    if facts.arena == ArenaIn::Heap {
        let bytes = facts.arena_bytes().map_or("free".to_owned(), |n| grouped(n as u64) + " bytes");
        rows.push(["the arena".to_owned(), bytes, "allocated by the first run".to_owned()]);
    }
    rows.extend(facts.heap.iter().map(|(name, ty, why)| [name.clone(), ty.clone(), (*why).into()]));
    if rows.is_empty() { String::new() } else { section("on the heap", &table(&rows, &[])) }
}

fn more(count: usize) -> Option<String> {
    (count > MOST).then(|| format!("and {} more; `--json` has all", count - MOST))
}

fn section(title: &str, lines: &[String]) -> String {
    let lines: String = lines.iter().map(|line| format!("  {}\n", visible(line))).collect();
    format!("{title}\n{lines}")
}

/// Aligns rows of cells; the columns of `numbers` are aligned at the right. Long cells are cut: the
/// formatter takes no width above 65535.
fn table<const N: usize>(rows: &[[String; N]], numbers: &[usize]) -> Vec<String> {
    let rows: Vec<[String; N]> =
        rows.iter().map(|row| std::array::from_fn(|column| line(&row[column]))).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let cell = |(column, text): (usize, &String)| match numbers.contains(&column) {
        true => format!("{text:>0$}", widths[column]),
        false => format!("{text:<0$}", widths[column]),
    };
    let lines = rows.iter().map(|row| {
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        cells.join("  ").trim_end().to_owned()
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_cell_is_cut() {
        let rows = [["x".repeat(100_000), "1".to_owned()], ["y".to_owned(), "20".to_owned()]];
        let lines = table(&rows, &[1]);
        assert_eq!(lines[0].chars().count(), lines[1].chars().count());
        assert!(lines[0].ends_with("…   1") && lines[0].chars().count() < 210, "{}", lines[0]);
    }
}
