package testing

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"reflect"
)

// inputSkipped is the panic that ends an input without a failure.
const inputSkipped = "input skipped"

// tempDir is the directory of the temporary directories of an input.
var tempDir string

// LibFuzzer calls a target with one input. It and F behave as go-118-fuzz-build does at the commit that build.sh names: the whole target
// runs for each input, F.Add and F.Cleanup do nothing, T.Cleanup calls its function at once, and a failure is a panic.
// hack/oss-fuzz/check adds this file to package testing, whose own F it renames, and changes the methods of T.
func LibFuzzer(input []byte, target func(*F)) {
	defer func() {
		if r := recover(); r != nil && r != inputSkipped {
			panic(r)
		}
	}()
	var err error
	if tempDir, err = os.MkdirTemp("", "fuzz"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(tempDir)
	target(&F{input})
}

// F has the methods that go-118-fuzz-build has, and no others.
type F struct{ rest []byte }

func (*F) Add(...any)                     {}
func (*F) Chdir(string)                   { panic("Chdir is not supported") }
func (*F) Cleanup(func())                 {}
func (*F) Context() context.Context       { panic("Context is not supported") }
func (*F) Error(args ...any)              { panic(fmt.Sprint(args...)) }
func (*F) Errorf(text string, arg ...any) { panic(fmt.Sprintf(text, arg...)) }
func (*F) Fail()                          { panic("Fail") }
func (*F) FailNow()                       { panic("FailNow") }
func (*F) Failed() bool                   { return false }
func (*F) Fatal(args ...any)              { panic(fmt.Sprint(args...)) }
func (*F) Fatalf(text string, arg ...any) { panic(fmt.Sprintf(text, arg...)) }
func (*F) Helper()                        {}
func (*F) Log(...any)                     {}
func (*F) Logf(string, ...any)            {}
func (*F) Name() string                   { return "libFuzzer" }
func (*F) Setenv(_, _ string)             {}
func (*F) Skip(...any)                    { panic(inputSkipped) }
func (*F) SkipNow()                       { panic(inputSkipped) }
func (*F) Skipf(string, ...any)           { panic(inputSkipped) }
func (*F) Skipped() bool                  { return false }
func (*F) TempDir() string                { return new(T).TempDir() }
func (*F) private()                       {}

// TempDir makes a directory that LibFuzzer removes.
func (*T) TempDir() string {
	dir, err := os.MkdirTemp(tempDir, "")
	if err != nil {
		panic(err)
	}
	return dir
}

// Fuzz calls a function with the arguments that the input has: those of fixed size, a byte for each of the others, and these, by whose
// weights they divide the rest. What the input lacks is zero.
func (f *F) Fuzz(function any) {
	call := reflect.ValueOf(function)
	args := []reflect.Value{reflect.ValueOf(new(T))}
	var texts []reflect.Value
	for i := 1; i < call.Type().NumIn(); i++ {
		arg := reflect.New(call.Type().In(i)).Elem()
		if args = append(args, arg); arg.Kind() == reflect.String || arg.Kind() == reflect.Slice {
			texts = append(texts, arg)
		} else {
			f.number(arg)
		}
	}
	weights, sum := f.take(len(texts)), 0
	for _, weight := range weights {
		sum += int(weight)
	}
	all := len(f.rest)
	for i, text := range texts {
		n := all / len(texts)
		if sum > 0 {
			n = all * int(weights[i]) / sum
		}
		if i == len(texts)-1 {
			n = len(f.rest)
		}
		text.Set(reflect.ValueOf(f.take(n)).Convert(text.Type()))
	}
	call.Call(args)
}

// take returns the next n bytes of the input.
func (f *F) take(n int) []byte {
	taken := make([]byte, n)
	f.rest = f.rest[copy(taken, f.rest):]
	return taken
}

// number reads a number or a bool.
func (f *F) number(to reflect.Value) {
	size := 1
	if to.Kind() != reflect.Bool {
		size = to.Type().Bits() / 8
	}
	bits := binary.BigEndian.Uint64(append(make([]byte, 8-size), f.take(size)...))
	switch {
	case to.Kind() == reflect.Bool:
		to.SetBool(bits&1 == 1)
	case to.Kind() == reflect.Float64:
		to.SetFloat(math.Float64frombits(bits))
	case to.Kind() == reflect.Float32:
		to.SetFloat(float64(math.Float32frombits(uint32(bits))))
	case to.CanInt():
		to.SetInt(int64(bits) << (64 - 8*size) >> (64 - 8*size))
	default:
		to.SetUint(bits)
	}
}
