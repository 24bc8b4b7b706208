//! Which bytes of a tensor a rank reads.

use rlx_core::plan::{Piece, Rows, Share};

const WHOLE: Piece = Piece { shard: 3, offset: 1000, bytes: 960 };

#[test]
fn a_share_is_told_by_its_name() {
    for within in [None, Some((96, 480))] {
        let share = Share { tensor: "blk.0.ffn_down.weight", ranks: 4, runs: 10, within };
        assert_eq!(Share::of(&share.name()), Some(share));
    }
    for name in
        ["blk.0.ffn_down.weight", "w.share_0_1", "w.share_2", "w.share_2_x", "w.share_2_1_1"]
    {
        assert_eq!(Share::of(name), None, "{name}");
    }
}

#[test]
fn runs_of_a_rank_lie_at_equal_distances() {
    let share = Share { tensor: "w", ranks: 4, runs: 10, within: None };
    let rows = share.rows(WHOLE, 3).unwrap();
    assert_eq!(rows, Rows { shard: 3, offset: 1072, run: 24, stride: 96, count: 10 });
    assert_eq!(rows.span(), 888);
    let share = Share { runs: 1, within: Some((96, 480)), ..share };
    assert_eq!(share.rows(WHOLE, 1).unwrap().offset, 1000 + 96 + 120);
}

#[test]
fn shares_outside_of_their_tensor_are_refused() {
    let share = Share { tensor: "w", ranks: 4, runs: 10, within: None };
    for wrong in [
        Share { ranks: 7, ..share },
        Share { runs: u64::MAX, ..share },
        Share { within: Some((u64::MAX, 2)), ..share },
        Share { within: Some((900, 120)), ..share },
    ] {
        wrong.rows(WHOLE, 0).expect_err("no such bytes");
    }
    share.rows(WHOLE, 4).expect_err("no such rank");
}
