package cgroups_test

import (
	"testing"

	"github.com/podtask/podtask/pkg/cgroups"
)

func TestWeightFromShares(t *testing.T) {
	t.Parallel()
	old := cgroups.CurveOf("crun", "crun version 1.21")
	for name, tt := range map[string]struct {
		curve cgroups.Curve
		want  map[uint64]uint64
	}{
		// The fixed points of the curves, their ends, and some worked out by hand.
		"today's": {cgroups.Curve{}, map[uint64]uint64{0: 0, 1: 1, 2: 1, 256: 35, 512: 59, 1024: 100, 2048: 174, 262144: 10000, 1 << 40: 10000}},
		"the old": {old, map[uint64]uint64{0: 0, 1: 1, 2: 1, 128: 5, 512: 20, 1024: 39, 2000: 77, 262144: 10000, 1 << 40: 10000}},
	} {
		for shares, want := range tt.want {
			if got := tt.curve.Weight(shares); got != want {
				t.Errorf("%s curve: %d shares are weight %d, want %d", name, shares, got, want)
			}
		}
		prev := uint64(1)
		for shares := uint64(2); shares <= 262144; shares++ {
			w := tt.curve.Weight(shares)
			if w < prev || w > 10000 {
				t.Fatalf("%s curve: %d shares are weight %d after %d", name, shares, w, prev)
			}
			prev = w
		}
	}
}

func TestShares(t *testing.T) {
	t.Parallel()
	for units, want := range map[int64]uint64{-1: 2, 0: 2, 1: 2, 2: 2, 3: 3, 1024: 1024, 262144: 262144, 262145: 262144, 1 << 62: 262144} {
		if got := cgroups.Shares(units); got != want {
			t.Errorf("%d units are %d shares, want %d", units, got, want)
		}
	}
}

func TestCurveOfARuntime(t *testing.T) {
	t.Parallel()
	const old, today = 39, 100 // the weight of 1024 shares
	for _, tt := range []struct {
		runtime, version string
		want             uint64
	}{
		{"crun", "crun version 1.21\ncommit: 10269840\nspec: 1.0.0", old},
		{"crun", "crun version 1.8.1", old},
		{"crun", "crun version 1.22.1", old},
		{"crun", "crun version 1.23", today},
		{"crun", "crun version 2.0", today},
		{"runc", "runc version 1.1.5+ds1\ncommit: 1.1.5", old},
		{"runc", "runc version 1.1.12-0ubuntu3", old},
		{"runc", "runc version 1.3.1", old},
		{"runc", "runc version 1.3.2", today},
		{"runc", "runc version 1.4.0-rc.1", today},
		{"youki", "youki version 0.1.0", today},
		{"crun", "", today},
		{"crun", "crun version unknown", today},
	} {
		if got := cgroups.CurveOf(tt.runtime, tt.version).Weight(1024); got != tt.want {
			t.Errorf("%q: 1024 shares are weight %d, want %d", tt.version, got, tt.want)
		}
	}
}
