//! Philox4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy
//! as 1, 2, 3" (SC 2011). A number is a function of key and counter, so a token's randomness is a
//! function of seed and position: no state to keep, copy to the device, or roll back.

/// Four random words for `counter` under `key`: ten rounds.
pub const fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    let mut round = 0;
    while round < 10 {
        let left = 0xD251_1F53 * c0 as u64;
        let right = 0xCD9E_8D57 * c2 as u64;
        [c0, c1, c2, c3] = [
            (right >> 32) as u32 ^ c1 ^ k0,
            right as u32,
            (left >> 32) as u32 ^ c3 ^ k1,
            left as u32,
        ];
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
        round += 1;
    }
    [c0, c1, c2, c3]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that Random123 publishes for philox4x32-10.
    #[test]
    fn philox_gives_the_published_known_answers() {
        assert_eq!(
            philox4x32_10([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32_10([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox4x32_10(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
