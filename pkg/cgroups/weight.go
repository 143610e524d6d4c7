package cgroups

import (
	"math"
	"strings"

	"github.com/blang/semver/v4"
)

// Curve is the formula by which an OCI runtime turns CPU shares (2 to 262144, cgroup v1, and ECS cpu
// units: 1024 for one vCPU) into a CPU weight (1 to 10000, cgroup v2). The zero value
// is that of today's runtimes.
type Curve struct{ linear bool }

// Since when the runtimes have today's curve.
var quadraticSince = map[string]semver.Version{
	"crun": semver.MustParse("1.23.0"),
	"runc": semver.MustParse("1.3.2"),
}

// CurveOf is the curve of a runtime, whose version is what it says itself:
// "crun version 1.21", in the first of many lines. A runtime or a version that is not
// known has today's.
func CurveOf(runtime, version string) Curve {
	since, known := quadraticSince[runtime]
	first, _, _ := strings.Cut(version, "\n")
	words := strings.Fields(first)
	if !known || len(words) == 0 {
		return Curve{}
	}
	v, err := semver.ParseTolerant(words[len(words)-1])
	v.Pre = nil // the distributions' own letters, as in 1.1.5+ds1 and 1.1.12-0ubuntu3
	return Curve{linear: err == nil && v.LT(since)}
}

// The ranges of shares and weights.
const minShares, maxShares = 2, 262144

// Weight returns the weight of a container with the given shares. Shares outside the range
// count as its ends; 0, unset, gives 0.
//
// Today's curve is a power of ten whose exponent is quadratic in log2(shares), through
// 2→1, 1024→100 and 262144→10000. The old one is a line through the ends, with 1024→39.
func (c Curve) Weight(shares uint64) uint64 {
	switch {
	case shares == 0:
		return 0
	case shares <= minShares:
		return minWeight
	case shares >= maxShares:
		return maxWeight
	case c.linear:
		return minWeight + (shares-minShares)*(maxWeight-minWeight)/(maxShares-minShares)
	}
	log := math.Log2(float64(shares))
	exponent := (log*log+125*log)/612 - 7.0/34
	return uint64(math.Ceil(math.Pow(10, exponent)))
}
