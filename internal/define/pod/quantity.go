package pod

import (
	"errors"
	"math/big"

	"github.com/podtask/podtask/internal/lazy"
)

// quantity is an amount in the notation of Kubernetes, such as 500m or 64Mi.
type quantity struct{ amount *big.Rat }

var (
	quantityPattern = lazy.MustCompile(`^([+-]?[0-9]*(?:\.[0-9]*)?)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9][0-9]?)?$`)
	errQuantity     = errors.New("not a quantity")
)

// suffixes are powers, as base and exponent.
var suffixes = map[string][2]int64{
	"": {10, 0}, "n": {10, -9}, "u": {10, -6}, "m": {10, -3}, "k": {10, 3}, "M": {10, 6}, "G": {10, 9}, "T": {10, 12}, "P": {10, 15}, "E": {10, 18},
	"Ki": {2, 10}, "Mi": {2, 20}, "Gi": {2, 30}, "Ti": {2, 40}, "Pi": {2, 50}, "Ei": {2, 60},
}

// maxQuantity is the length of the longest notation; longer numbers would cost time and memory.
const maxQuantity = 64

func parseQuantity(s string) (quantity, error) {
	m := quantityPattern.FindStringSubmatch(s)
	if m == nil || len(s) > maxQuantity {
		return quantity{}, errQuantity
	}
	amount, ok := new(big.Rat).SetString(m[1])
	power, plainSuffix := suffixes[m[2]]
	if !plainSuffix { // an exponent
		amount, ok = new(big.Rat).SetString(s)
		power = [2]int64{10, 0}
	}
	if !ok {
		return quantity{}, errQuantity
	}
	factor := new(big.Int).Exp(big.NewInt(power[0]), big.NewInt(max(power[1], -power[1])), nil)
	if power[1] < 0 {
		return quantity{amount.Quo(amount, new(big.Rat).SetInt(factor))}, nil
	}
	return quantity{amount.Mul(amount, new(big.Rat).SetInt(factor))}, nil
}

// times returns the amount multiplied, rounded up; what does not fit in an int64
// becomes the largest one.
func (q quantity) times(n int64) int64 {
	if q.amount == nil {
		return 0
	}
	r := new(big.Rat).Mul(q.amount, new(big.Rat).SetInt64(n))
	up := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	up.Div(up, r.Denom())
	if !up.IsInt64() {
		return 1<<63 - 1
	}
	return up.Int64()
}

// over divides by a divisor, rounded up, as resourceFieldRef does.
func (q quantity) over(divisor quantity) int64 {
	if q.amount == nil || divisor.amount == nil || divisor.amount.Sign() <= 0 {
		return 0
	}
	return quantity{new(big.Rat).Quo(q.amount, divisor.amount)}.times(1)
}

// add, less and larger treat an absent quantity as zero.
func (q quantity) add(o quantity) quantity {
	switch {
	case q.amount == nil:
		return o
	case o.amount == nil:
		return q
	}
	return quantity{new(big.Rat).Add(q.amount, o.amount)}
}

func (q quantity) less(o quantity) bool {
	zero := new(big.Rat)
	a, b := q.amount, o.amount
	if a == nil {
		a = zero
	}
	if b == nil {
		b = zero
	}
	return a.Cmp(b) < 0
}

func larger(a, b quantity) quantity {
	if a.less(b) {
		return b
	}
	return a
}

func (q quantity) zero() bool { return q.amount == nil || q.amount.Sign() == 0 }
