//! Operators of two values, and slices, as Python has them.

use super::ast::{Comparison, Operator};
use super::meter::{Lease, Meter, Result, failed};
use super::methods::printf;
use super::value::{Builder, TextBuilder, Value};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// `a op b`, for all but `~`, which the run writes in one go.
pub(super) fn binary(op: Operator, a: &Value, b: &Value, meter: &Arc<Meter>) -> Result<Value> {
    match (op, a, b) {
        (Operator::Add, Value::Text(a), Value::Text(b)) => {
            let mut out = TextBuilder::new(meter);
            out.push(a)?;
            out.push(b)?;
            out.finish()
        }
        (Operator::Add, Value::List(a), Value::List(b)) => {
            Value::list(a.iter().chain(&**b).cloned(), meter)
        }
        (Operator::Multiply, Value::Text(_) | Value::List(_), n) => repeat(a, n, meter),
        (Operator::Multiply, n, Value::Text(_) | Value::List(_)) => repeat(b, n, meter),
        (Operator::Remainder, Value::Text(text), b) => {
            let values = match b {
                Value::List(items) => items,
                one => core::slice::from_ref(one),
            };
            printf(text, values, meter)
        }
        _ => number(op, a, b),
    }
}

fn repeat(value: &Value, n: &Value, meter: &Arc<Meter>) -> Result<Value> {
    let n = n.as_int()?.max(0);
    match value {
        Value::List(items) => {
            let mut out = Builder::new(meter);
            for _ in 0..if items.is_empty() { 0 } else { n } {
                items.iter().try_for_each(|item| out.push(item.clone()))?;
            }
            out.finish()
        }
        other => {
            let text = other.as_text()?;
            let mut out = TextBuilder::new(meter);
            for _ in 0..if text.is_empty() { 0 } else { n } {
                out.push(text)?;
            }
            out.finish()
        }
    }
}

fn number(op: Operator, a: &Value, b: &Value) -> Result<Value> {
    let whole = |value: &Value| match value {
        Value::Int(value) => Some(*value),
        Value::Bool(value) => Some(i64::from(*value)),
        _ => None,
    };
    if let (Some(x), Some(y), true) = (whole(a), whole(b), op != Operator::Divide) {
        if y == 0 && matches!(op, Operator::FloorDivide | Operator::Remainder) {
            return failed("division by zero");
        }
        let value = match op {
            Operator::Add => x.checked_add(y),
            Operator::Subtract => x.checked_sub(y),
            Operator::Multiply => x.checked_mul(y),
            // Towards less, as Python does, not towards zero.
            Operator::FloorDivide => {
                x.checked_div(y).map(|q| q - i64::from(x % y != 0 && (x < 0) != (y < 0)))
            }
            Operator::Remainder => {
                x.checked_rem(y).map(|r| if r != 0 && (r < 0) != (y < 0) { r + y } else { r })
            }
            _ if y < 0 => return Ok(Value::Float(libm::pow(x as f64, y as f64))),
            _ => u32::try_from(y).ok().and_then(|y| x.checked_pow(y)),
        };
        return match value {
            Some(value) => Ok(Value::Int(value)),
            None => failed("a number is too large"),
        };
    }
    let (Some(x), Some(y)) = (a.as_float(), b.as_float()) else {
        return failed(format!("{} and {} have no such operator", a.kind(), b.kind()));
    };
    if y == 0.0 && matches!(op, Operator::Divide | Operator::FloorDivide | Operator::Remainder) {
        return failed("division by zero");
    }
    Ok(Value::Float(match op {
        Operator::Add => x + y,
        Operator::Subtract => x - y,
        Operator::Multiply => x * y,
        Operator::Divide => x / y,
        Operator::FloorDivide => libm::floor(x / y),
        Operator::Remainder => x - y * libm::floor(x / y),
        _ => libm::pow(x, y),
    }))
}

/// `a op b` that is true or false.
pub(super) fn compare(op: Comparison, a: &Value, b: &Value, meter: &Arc<Meter>) -> Result<bool> {
    Ok(match op {
        Comparison::Equal => a.same(b, meter)?,
        Comparison::NotEqual => !a.same(b, meter)?,
        Comparison::Less => a.order(b, meter)?.is_lt(),
        Comparison::LessEqual => a.order(b, meter)?.is_le(),
        Comparison::Greater => a.order(b, meter)?.is_gt(),
        Comparison::GreaterEqual => a.order(b, meter)?.is_ge(),
        Comparison::In => contains(b, a, meter)?,
        Comparison::NotIn => !contains(b, a, meter)?,
    })
}

fn contains(container: &Value, item: &Value, meter: &Arc<Meter>) -> Result<bool> {
    match container {
        Value::Undefined => Ok(false),
        Value::Text(text) => {
            let part = item.as_text()?;
            meter.text(text.len() + part.len())?;
            Ok(text.contains(&**part))
        }
        Value::List(items) => {
            for other in &**items {
                if other.same(item, meter)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => Ok(map.get(meter, item)?.is_some()),
        other => failed(format!("{} has no elements", other.kind())),
    }
}

/// `value[from:to:step]`
pub(super) fn slice(value: &Value, parts: [Option<i64>; 3], meter: &Arc<Meter>) -> Result<Value> {
    let [from, to, step] = parts;
    let step = step.unwrap_or(1);
    if step == 0 {
        return failed("a slice has the step 0");
    }
    let len = match value {
        Value::Text(text) => {
            meter.text(text.len())?;
            text.chars().count()
        }
        Value::List(items) => items.len(),
        Value::Undefined => return Value::list([], meter),
        other => return failed(format!("{} has no slices", other.kind())),
    } as i64;
    // Python's rules: from the end where negative, then into the range.
    let place = |at: i64, low: i64, high: i64| {
        (if at < 0 { at.saturating_add(len) } else { at }).clamp(low, high)
    };
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let from = from.map_or(if step > 0 { low } else { high }, |at| place(at, low, high));
    let to = to.map_or(if step > 0 { high } else { low }, |at| place(at, low, high));
    let (mut at, n) = {
        let way = if step > 0 { to - from } else { from - to };
        let stride = step.saturating_abs();
        (from, if way <= 0 { 0 } else { (way - 1) / stride + 1 })
    };
    if let Value::Text(text) = value {
        if step == 1 {
            let byte =
                |n: i64| text.char_indices().nth(n as usize).map_or(text.len(), |(at, _)| at);
            return if n == 0 {
                Value::text("", meter)
            } else {
                Value::text(&text[byte(from)..byte(to)], meter)
            };
        }
        meter.steps(text.len())?;
        let mut lease = Lease::new(meter);
        lease.grow(text.len().saturating_mul(size_of::<char>()))?;
        let chars: Vec<char> = text.chars().collect();
        let mut out = TextBuilder::new(meter);
        for _ in 0..n {
            out.push_char(chars[at as usize])?;
            at = at.saturating_add(step);
        }
        return out.finish();
    }
    let Value::List(items) = value else { return Ok(Value::Undefined) };
    let mut out = Builder::new(meter);
    for _ in 0..n {
        out.push(items[at as usize].clone())?;
        at = at.saturating_add(step);
    }
    out.finish()
}
