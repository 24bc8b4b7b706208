//! A file written front to back: the header first, then tensors in order, in pieces of any size.

use super::writer::Writer;
use crate::{Error, Result};
use alloc::format;
use alloc::vec::Vec;

/// Zeros that padding is taken from; alignments above it take several.
const ZEROS: [u8; 64] = [0; 64];

/// What takes a file's bytes, in order.
pub trait Sink {
    /// Takes all of the next bytes.
    ///
    /// # Errors
    /// `Io` where they cannot be kept.
    fn put(&mut self, bytes: &[u8]) -> Result<()>;
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// Writes a laid-out file to a sink. Padding is put in by itself, so a caller gives tensor bytes
/// and nothing else.
///
/// ```
/// use rlx_core::gguf::{Stream, TensorSpec, Writer};
/// use rlx_core::types::DType;
///
/// let tensors = [TensorSpec { name: "w".into(), dtype: DType::F32, dims: vec![2] }];
/// let mut stream = Stream::begin(Writer::new(&[], &tensors)?, Vec::new())?;
/// stream.write(&1.0f32.to_le_bytes())?;
/// assert_eq!(stream.tensor(), Some((0, 4)));
/// stream.write(&2.0f32.to_le_bytes())?;
/// let file = stream.end()?;
/// assert_eq!(&file[..4], b"GGUF");
/// # Ok::<(), rlx_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stream<S> {
    writer: Writer,
    sink: S,
    tensor: usize,
    left: u64, // bytes of `tensor` to come; 0 past the last
}

impl<S: Sink> Stream<S> {
    /// Writes the header.
    ///
    /// # Errors
    /// What the sink meets.
    pub fn begin(writer: Writer, mut sink: S) -> Result<Self> {
        sink.put(writer.header())?;
        let left = if writer.tensors() == 0 { 0 } else { writer.bytes(0) };
        Ok(Self { writer, sink, tensor: 0, left })
    }

    /// The tensor whose bytes come next, by its place in the list that the writer was given, and
    /// how many of them are missing; `None` when the file is whole.
    pub fn tensor(&self) -> Option<(usize, u64)> {
        (self.tensor < self.writer.tensors()).then_some((self.tensor, self.left))
    }

    /// The file's layout.
    pub fn layout(&self) -> &Writer {
        &self.writer
    }

    /// Writes the next bytes of the tensor that [`tensor`](Self::tensor) names; the last of them
    /// bring its padding, and the next tensor's turn.
    ///
    /// # Errors
    /// `Internal` for more bytes than that tensor has left; what the sink meets.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let n = bytes.len() as u64;
        let Some(left) = self.left.checked_sub(n) else {
            return Err(Error::internal(format!(
                "{n} bytes are written to tensor {} of a GGUF file, which has {} left",
                self.tensor, self.left
            )));
        };
        if n == 0 {
            return Ok(());
        }
        self.sink.put(bytes)?;
        self.left = left;
        if left == 0 {
            let mut padding = self.writer.padding(self.tensor);
            while padding > 0 {
                let zeros = ZEROS.get(..padding as usize).unwrap_or(&ZEROS);
                self.sink.put(zeros)?;
                padding -= zeros.len() as u64;
            }
            self.tensor += 1;
            if self.tensor < self.writer.tensors() {
                self.left = self.writer.bytes(self.tensor);
            }
        }
        Ok(())
    }

    /// The file is whole: gives the sink back.
    ///
    /// # Errors
    /// `Internal` when bytes are missing.
    pub fn end(self) -> Result<S> {
        match self.tensor() {
            None => Ok(self.sink),
            Some((tensor, left)) => Err(Error::internal(format!(
                "a GGUF file ends {left} bytes before the end of its tensor {tensor}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TensorSpec, Value};
    use super::*;
    use crate::types::DType;

    fn layout(alignment: u32, lengths: &[u64]) -> Writer {
        let spec = |(i, &n): (usize, &u64)| TensorSpec {
            name: alloc::format!("t{i}"),
            dtype: DType::F32,
            dims: alloc::vec![n],
        };
        let tensors: Vec<_> = lengths.iter().enumerate().map(spec).collect();
        Writer::new(&[("general.alignment".into(), Value::U32(alignment))], &tensors).unwrap()
    }

    #[test]
    fn pieces_of_any_size_give_the_file_that_the_layout_says() {
        for (alignment, piece) in [(32, 1), (32, 7), (256, 4), (8, 1000)] {
            let writer = layout(alignment, &[3, 8, 1]);
            let mut stream = Stream::begin(writer.clone(), Vec::new()).unwrap();
            while let Some((tensor, left)) = stream.tensor() {
                let n = left.min(piece) as usize;
                stream.write(&alloc::vec![tensor as u8 + 1; n]).unwrap();
            }
            let file = stream.end().unwrap();
            let mut want = alloc::vec![0u8; writer.file_bytes() as usize];
            want[..writer.header().len()].copy_from_slice(writer.header());
            for i in 0..3 {
                let at = writer.offset(i) as usize;
                want[at..at + writer.bytes(i) as usize].fill(i as u8 + 1);
            }
            assert_eq!(file, want, "alignment {alignment}, pieces of {piece}");
        }
    }

    #[test]
    fn bytes_past_a_tensor_and_an_early_end_are_faults_of_the_caller() {
        let mut stream = Stream::begin(layout(32, &[1, 1]), Vec::new()).unwrap();
        let e = stream.write(&[0; 5]).unwrap_err();
        assert_eq!(e.what, "5 bytes are written to tensor 0 of a GGUF file, which has 4 left");
        stream.write(&[0; 4]).unwrap();
        let e = stream.end().unwrap_err();
        assert_eq!(e.what, "a GGUF file ends 4 bytes before the end of its tensor 1");
        Stream::begin(layout(32, &[]), Vec::new()).unwrap().end().unwrap();
    }

    #[test]
    fn an_error_of_the_sink_is_the_streams() {
        #[derive(Debug)]
        struct Full;
        impl Sink for Full {
            fn put(&mut self, _: &[u8]) -> Result<()> {
                Err(Error::new(crate::Code::Io, "full"))
            }
        }
        assert_eq!(Stream::begin(layout(32, &[1]), Full).unwrap_err().what, "full");
    }
}
