package testing

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
)

// writeSeeds writes the seeds of a target into the directory SEEDS/TARGET, in the form in which fuzzers of go-118-fuzz-build read
// arguments: those of fixed size first, then a byte for each of the others, which divides the rest among them by weight.
// hack/oss-fuzz/build.sh adds this file to package testing, and a call of it where all seeds are there.
func writeSeeds(target string, all []corpusEntry) {
	dir := os.Getenv("SEEDS")
	if dir == "" {
		return
	}
	dir = filepath.Join(dir, target)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		panic(err)
	}
	for i, e := range all {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("seed-%04d", i)), seedBytes(e.Values), 0o644); err != nil {
			panic(err)
		}
	}
}

func seedBytes(values []any) []byte {
	var out []byte
	var texts [][]byte
	longest := 0
	for _, value := range values {
		switch v := value.(type) {
		case string:
			texts = append(texts, []byte(v))
		case []byte:
			texts = append(texts, v)
		case int:
			out = binary.BigEndian.AppendUint64(out, uint64(v))
		case uint:
			out = binary.BigEndian.AppendUint64(out, uint64(v))
		case bool:
			bit := byte(0)
			if v {
				bit = 1
			}
			out = append(out, bit)
		case float32:
			out = binary.BigEndian.AppendUint32(out, math.Float32bits(v))
		case float64:
			out = binary.BigEndian.AppendUint64(out, math.Float64bits(v))
		default: // integers of a size
			var err error
			if out, err = binary.Append(out, binary.BigEndian, v); err != nil {
				panic(err)
			}
		}
	}
	for _, text := range texts {
		longest = max(longest, len(text))
	}
	for _, text := range texts { // exact if none is longer than a byte can say, and else nearly so
		weight := len(text)
		if longest > math.MaxUint8 {
			weight = len(text) * math.MaxUint8 / longest
		}
		out = append(out, byte(weight))
	}
	for _, text := range texts {
		out = append(out, text...)
	}
	return out
}
