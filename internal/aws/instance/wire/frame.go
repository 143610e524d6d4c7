package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// MaxFrame is the most a message from ECS may have, in bytes.
const MaxFrame = 16 << 20

// Frame is one message of a web socket: {"type": NAME, "message": {...}}.
type Frame struct {
	Type    string          `json:"type"`
	Message json.RawMessage `json:"message"`
}

// Decode reads a frame.
func Decode(text []byte) (Frame, error) {
	var f Frame
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("a message that is not JSON: %w", err)
	}
	if f.Type == "" {
		return f, errors.New("a message without a type")
	}
	return f, nil
}

// Encode makes the frame of a message.
func Encode(kind string, message any) ([]byte, error) {
	body, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	return json.Marshal(Frame{kind, body})
}

// Time is a time in seconds since 1970 with a fraction, as JSON of AWS has it.
type Time struct{ time.Time }

// At returns the wire form of a time; nil for the zero time.
func At(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return &Time{t}
}

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(t.UnixMilli())/1000, 'f', -1, 64), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(text []byte) error {
	seconds, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return fmt.Errorf("%s is not a number of seconds", text)
	}
	if seconds < -1e11 || seconds > 1e11 || seconds != seconds {
		return fmt.Errorf("%s seconds are no time", text)
	}
	t.Time = time.UnixMilli(int64(seconds * 1000))
	return nil
}
