//! How many decode steps are in flight.
//!
//! A step needs nothing from the host, so the window only has to cover the time between two answers. If each
//! answer comes as its step ends, a few steps are enough, and a stop that is found late drops only these. But a
//! browser that checks for answers every 100 ms delivers them in bursts. If a burst contains every step that was
//! in flight, the device stood idle, and the window doubles. This needs no clock.

/// The window of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    least: usize,
    most: usize,
    size: usize,
    /// Answers of the current burst.
    burst: usize,
    /// Steps in flight when the burst began.
    began: usize,
}

impl Window {
    /// A window from `least` to `most` steps that begins with `size`, clamped to this range.
    pub fn new(least: usize, most: usize, size: usize) -> Self {
        let least = least.max(1);
        let most = most.max(least);
        Window { least, most, size: size.clamp(least, most), burst: 0, began: 0 }
    }

    /// Steps that may be in flight.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Notes an answer, which was one of `in_flight`.
    pub fn answered(&mut self, in_flight: usize) {
        if self.burst == 0 {
            self.began = in_flight;
        }
        self.burst += 1;
    }

    /// Notes that no answer is there, which ends a burst. True if the window has grown.
    pub fn settle(&mut self) -> bool {
        let (before, burst) = (self.size, core::mem::take(&mut self.burst));
        if burst > 1 && burst >= self.began {
            self.size = (2 * self.size).min(self.most);
        } else if burst > 0 && 2 * burst < self.size {
            // It shrinks by one at a time, so that one delay of the page does not undo earlier growth.
            self.size = (self.size - 1).max(self.least);
        }
        self.size > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(w: &mut Window, answers: usize, in_flight: usize) -> bool {
        (0..answers).for_each(|_| w.answered(in_flight));
        w.settle()
    }

    #[test]
    fn single_answers_leave_it_as_it_began() {
        let mut w = Window::new(4, 64, 0);
        for _ in 0..100 {
            assert!(!burst(&mut w, 1, 4));
            assert!(!w.settle(), "nothing came");
        }
        assert_eq!(w.size(), 4);
    }

    #[test]
    fn bursts_of_all_that_is_in_flight_double_it_up_to_the_most() {
        let mut w = Window::new(4, 64, 4);
        let sizes: [usize; 5] = core::array::from_fn(|_| {
            let all = w.size();
            burst(&mut w, all, all);
            w.size()
        });
        assert_eq!(sizes, [8, 16, 32, 64, 64]);
    }

    #[test]
    fn it_stays_where_the_device_has_steps_left_and_shrinks_where_it_has_twice_as_many() {
        let mut w = Window::new(4, 64, 32);
        assert!(!burst(&mut w, 20, 32));
        assert_eq!(w.size(), 32);
        assert!(!burst(&mut w, 16, 32), "half of it is no reason to shrink");
        assert_eq!(w.size(), 32);
        burst(&mut w, 15, 32);
        assert_eq!(w.size(), 31);
        (0..100).for_each(|_| assert!(!burst(&mut w, 1, 31)));
        assert_eq!(w.size(), 4);
    }

    #[test]
    fn one_step_in_flight_is_no_burst_and_a_fixed_window_stays() {
        let mut w = Window::new(1, 64, 1);
        burst(&mut w, 1, 1);
        assert_eq!(w.size(), 1);
        let mut w = Window::new(4, 0, 9);
        burst(&mut w, 4, 4);
        assert_eq!(w.size(), 4);
        assert_eq!(Window::new(0, 0, 0).size(), 1);
    }
}
