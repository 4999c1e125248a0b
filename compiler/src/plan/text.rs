//! The plan as text: one call per line, with the location of every operand.

use super::{Arg, Block, BufferId, Common, Cond, Condition, Form, Operand, Place, Plan, Step};
use std::fmt;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (arena, weights) = (self.arena_bytes, self.weight_bytes);
        match self.dynamic.len() {
            0 => writeln!(f, "arena {arena} bytes, weights {weights} bytes")?,
            n => writeln!(f, "arena {arena} bytes and {n} buffers, weights {weights} bytes")?,
        }
        if let Some((calls, operations)) = self.recomputed() {
            writeln!(f, "{calls} rematerialized calls: {operations} operations")?;
        }
        self.steps(f, &self.steps, 0)?;
        for state in &self.states {
            let (next, found) = (&state.next.operand, &state.found.operand);
            writeln!(f, "keep {} for {}", self.operand(next), self.operand(found))?;
        }
        for port in &self.outputs {
            writeln!(f, "return {}", self.operand(&port.operand))?;
        }
        Ok(())
    }
}

impl Plan {
    fn steps(&self, f: &mut fmt::Formatter<'_>, steps: &[Step], depth: usize) -> fmt::Result {
        let indent = "    ".repeat(depth);
        for step in steps {
            write!(f, "{indent}")?;
            match step {
                Step::Call(call) => {
                    let args = |args: &[Arg]| {
                        let each = args.iter().map(|arg| match arg.operand() {
                            Some(operand) => self.operand(operand),
                            None => "-".into(),
                        });
                        each.collect::<Vec<_>>().join(", ")
                    };
                    let form = if call.form == Form::InPlace { " in place" } else { "" };
                    let (outputs, inputs) = (args(&call.outputs), args(&call.inputs));
                    let binds = call.binds.join(", ");
                    writeln!(f, "{outputs}{binds} = {}{form} ({inputs})", call.kernel)?;
                }
                Step::Check(check) => match &check.condition {
                    Condition::Equal(a, b) => writeln!(f, "check {a:?} == {b:?}")?,
                    Condition::Broadcast(a, b) => writeln!(f, "check {a:?} fits {b:?}")?,
                    Condition::AtLeast(a, b) => writeln!(f, "check {a:?} >= {b:?}")?,
                },
                Step::Loop(step) => {
                    writeln!(f, "for {}", step.iteration)?;
                    for carried in &step.carried {
                        let (value, initial) =
                            (self.operand(&carried.value), self.operand(&carried.initial));
                        writeln!(f, "{indent}    carry {value} from {initial}")?;
                    }
                    self.block(f, &step.body, depth + 1)?;
                    for Common { output, symbol, size, .. } in &step.common {
                        writeln!(f, "{indent}    check {size:?} is {symbol} of all of {output}")?;
                    }
                    let all = step.stacked.iter().map(|stacked| self.operand(&stacked.all));
                    writeln!(f, "{indent}=> {}", all.collect::<Vec<_>>().join(", "))?;
                }
                Step::If(step) => {
                    match &step.cond {
                        Cond::Tensor(cond) => writeln!(f, "if {}", self.operand(cond))?,
                        Cond::Size(dim) => writeln!(f, "if {dim:?} != 0")?,
                    }
                    self.block(f, &step.branches[0], depth + 1)?;
                    writeln!(f, "{indent}else")?;
                    self.block(f, &step.branches[1], depth + 1)?;
                    let outputs = step.outputs.iter().map(|operand| self.operand(operand));
                    writeln!(f, "{indent}=> {}", outputs.collect::<Vec<_>>().join(", "))?;
                }
            }
        }
        Ok(())
    }

    fn block(&self, f: &mut fmt::Formatter<'_>, block: &Block, depth: usize) -> fmt::Result {
        self.steps(f, &block.steps, depth)?;
        if let Some(why) = &block.refusal {
            return writeln!(f, "{}refuse: {why}", "    ".repeat(depth));
        }
        let results = block.results.iter().map(|operand| self.operand(operand));
        let results = results.collect::<Vec<_>>().join(", ");
        writeln!(f, "{}yield {results} {:?}", "    ".repeat(depth), block.sizes)
    }

    fn operand(&self, operand: &Operand) -> String {
        let part = match operand.start.known() {
            Some(0) if self.buffers[operand.buffer].len == operand.len => String::new(),
            _ => format!("[{:?}; {:?}]", operand.start, operand.len),
        };
        format!("{}{part}", self.place(operand.buffer))
    }

    fn place(&self, id: BufferId) -> String {
        let buffer = &self.buffers[id];
        let place = match &buffer.place {
            Place::Input(i) => format!("input {i}"),
            Place::Weight { offset, .. } => format!("weights {offset}"),
            Place::Arena { capacity, .. } if self.is_dynamic(id) => format!("arena[{capacity:?}]"),
            Place::Arena { offset, capacity } => format!("{offset}+{capacity:?}"),
            Place::Heap => "heap".into(),
        };
        format!("{}@{place}", buffer.name)
    }
}
