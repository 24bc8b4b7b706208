//! Running a language model: the device trait, the generation machine, the driver.

pub mod device;
