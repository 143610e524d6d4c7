package secrets

import (
	"fmt"
	"io"
	"log/slog"
)

// Value is a secret. Every verb of package fmt, JSON and slog show a placeholder; Bytes
// and Text return the secret.
type Value struct{ b []byte }

const placeholder = "[secret]"

// NewValue takes over b, which Clear will overwrite.
func NewValue(b []byte) Value { return Value{b} }

// Bytes is the secret itself, not a copy.
func (v Value) Bytes() []byte { return v.b }

// Text returns a copy of the secret as a string, which cannot be overwritten: drop it as
// soon as possible.
func (v Value) Text() string { return string(v.b) }

// Clear overwrites the secret with zeros. Copies made by Text stay.
func (v Value) Clear() { clear(v.b) }

// Format implements fmt.Formatter.
func (Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, placeholder) }

// MarshalText implements encoding.TextMarshaler, and with it JSON's.
func (Value) MarshalText() ([]byte, error) { return []byte(placeholder), nil }

// LogValue implements slog.LogValuer.
func (Value) LogValue() slog.Value { return slog.StringValue(placeholder) }
