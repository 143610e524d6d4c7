package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"
)

// Moment is a time as AWS' JSON protocol has it: seconds since 1970, with milliseconds.
type Moment time.Time

// MarshalJSON implements json.Marshaler.
func (m Moment) MarshalJSON() ([]byte, error) {
	seconds := float64(time.Time(m).UnixMilli()) / 1000
	return strconv.AppendFloat(nil, seconds, 'f', -1, 64), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Moment) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return err
	}
	const most = 253402300799 // the last second of the year 9999, which JSON of Go can have
	if seconds < -most || seconds > most {
		return fmt.Errorf("%v is no time", seconds)
	}
	*m = Moment(time.UnixMilli(int64(math.Round(seconds * 1000))).UTC())
	return nil
}

// IsZero makes omitzero leave an unknown time out.
func (m Moment) IsZero() bool { return time.Time(m).IsZero() }

// Problem is something that was named in a request and is not there.
type Problem struct {
	ARN    string `json:"arn,omitempty"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// MissingReason is the reason of a Problem that ECS gives for what is not there.
const MissingReason = "MISSING"

// NameValue is one of AWS' pairs.
type NameValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// WithMembers returns a document in which members that a client sent replace those of doc.
func WithMembers(doc any, kept Fields) json.Marshaler { return over{doc, kept} }

// over is a document with members that replace its own.
type over struct {
	doc  any
	kept Fields
}

// MarshalJSON implements json.Marshaler.
func (o over) MarshalJSON() ([]byte, error) {
	doc, err := json.Marshal(o.doc)
	if err != nil || len(o.kept) == 0 {
		return doc, err
	}
	var own Fields
	if err := json.Unmarshal(doc, &own); err != nil {
		return nil, err
	}
	maps.Copy(own, o.kept)
	return json.Marshal(own)
}

// Given reports whether a kept member has a value that is not empty.
func Given(kept Fields, name string) bool {
	v := string(kept[name])
	return v != "" && v != "[]" && v != "{}"
}

// DigestOf returns the digest of a request.
func DigestOf(in any, kept Fields) (string, error) {
	data, err := json.Marshal([]any{in, kept})
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]), err
}
