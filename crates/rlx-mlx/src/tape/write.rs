//! A tape as words: what nothing reads is left out, and arrays are dropped behind their last use.

use super::{Reg, Tape};

/// The words of a tape, as the head of `shim/shim.cpp` has them.
pub(super) fn words(tape: &Tape, results: &[Reg]) -> Vec<i64> {
    let parameters = tape.parameters as usize;
    let total = parameters + tape.instructions.len();
    let mut used = vec![false; total];
    results.iter().for_each(|r| used[r.0 as usize] = true);
    for (i, instruction) in tape.instructions.iter().enumerate().rev() {
        if used[parameters + i] {
            instruction.inputs.iter().for_each(|r| used[r.0 as usize] = true);
        }
    }
    // New numbers: parameters keep theirs.
    let mut numbers = vec![0i64; total];
    let mut next = 0;
    for (old, number) in numbers.iter_mut().enumerate() {
        if old < parameters || used[old] {
            *number = next;
            next += 1;
        }
    }
    let number = |r: &Reg| numbers[r.0 as usize];
    let kept: Vec<usize> = (0..tape.instructions.len()).filter(|i| used[parameters + i]).collect();
    let mut last = vec![usize::MAX; total];
    for &i in &kept {
        tape.instructions[i].inputs.iter().for_each(|r| last[r.0 as usize] = i);
    }
    results.iter().for_each(|r| last[r.0 as usize] = usize::MAX);

    let mut out = vec![parameters as i64, kept.len() as i64, results.len() as i64];
    for i in kept {
        let instruction = &tape.instructions[i];
        let mut dropped: Vec<i64> =
            instruction.inputs.iter().filter(|r| last[r.0 as usize] == i).map(number).collect();
        dropped.sort_unstable();
        dropped.dedup();
        let lists = [
            instruction.inputs.len(),
            instruction.ints.len(),
            instruction.numbers.len(),
            dropped.len(),
        ];
        out.push(instruction.code as i64);
        out.extend(lists.map(|n| n as i64));
        out.extend(instruction.inputs.iter().map(number));
        out.extend(&instruction.ints);
        out.extend(instruction.numbers.iter().map(|&bits| bits as i64));
        out.extend(dropped);
    }
    out.extend(results.iter().map(number));
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Code, Kind, Tape};

    #[test]
    fn equal_instructions_are_one_and_what_nothing_reads_is_left_out() {
        let mut t = Tape::default();
        let (a, b) = (t.parameter(), t.parameter());
        let sum = t.op(Code::Add, &[a, b]);
        t.op(Code::Exp, &[sum]);
        assert_eq!(t.op(Code::Add, &[a, b]), sum);
        let y = t.with(Code::AsType, &[sum], &[Kind::F16 as i64]);
        let words = t.finish(&[y, a]);
        let add = [Code::Add as i64, 2, 0, 0, 1, 0, 1, 1];
        let cast = [Code::AsType as i64, 1, 1, 0, 1, 2, 9, 2];
        let expected: Vec<i64> =
            [2, 2, 2].into_iter().chain(add).chain(cast).chain([3, 0]).collect();
        assert_eq!(words, expected);
    }
}
