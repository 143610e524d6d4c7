package secretsource

import (
	"fmt"
	"io"
	"log/slog"
)

// Value is a secret. Every verb of package fmt, JSON and slog show a placeholder; Bytes,
// Text and File return the secret.
type Value struct {
	b []byte
	// end counts the bytes at the end that only File returns: the newline that an editor adds.
	end int
}

const placeholder = "[secret]"

// NewValue takes over b, which Clear will overwrite.
func NewValue(b []byte) Value { return Value{b: b} }

// Bytes is the secret itself, not a copy.
func (v Value) Bytes() []byte { return v.b[:len(v.b)-v.end] }

// File is the secret as its source has it, with a newline at the end, not a copy. It is for
// files, whose readers may need the newline.
func (v Value) File() []byte { return v.b }

// Text returns a copy of the secret as a string, which cannot be overwritten: drop it as
// soon as possible.
func (v Value) Text() string { return string(v.Bytes()) }

// Clear overwrites the secret with zeros. Copies made by Text stay.
func (v Value) Clear() { clear(v.b) }

// Format implements fmt.Formatter.
func (Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, placeholder) }

// MarshalText implements encoding.TextMarshaler, and with it JSON's.
func (Value) MarshalText() ([]byte, error) { return []byte(placeholder), nil }

// LogValue implements slog.LogValuer.
func (Value) LogValue() slog.Value { return slog.StringValue(placeholder) }
