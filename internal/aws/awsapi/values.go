package awsapi

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// moment is a time as AWS' JSON protocol has it: seconds since 1970, with milliseconds.
type moment time.Time

// MarshalJSON implements json.Marshaler.
func (m moment) MarshalJSON() ([]byte, error) {
	seconds := float64(time.Time(m).UnixMilli()) / 1000
	return strconv.AppendFloat(nil, seconds, 'f', -1, 64), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *moment) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return err
	}
	const most = 253402300799 // the last second of the year 9999, which JSON of Go can have
	if seconds < -most || seconds > most {
		return fmt.Errorf("%v is no time", seconds)
	}
	*m = moment(time.UnixMilli(int64(math.Round(seconds * 1000))).UTC())
	return nil
}

// IsZero makes omitzero leave an unknown time out.
func (m moment) IsZero() bool { return time.Time(m).IsZero() }

// problem is something that was named in a request and is not there.
type problem struct {
	ARN    string `json:"arn,omitempty"`
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

const missingReason = "MISSING"

// nameValue is one of AWS' pairs.
type nameValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// over is a document in which what a client sent replaces what it has.
type over struct {
	doc  any
	kept fields
}

// MarshalJSON implements json.Marshaler.
func (o over) MarshalJSON() ([]byte, error) {
	doc, err := json.Marshal(o.doc)
	if err != nil || len(o.kept) == 0 {
		return doc, err
	}
	var own fields
	if err := json.Unmarshal(doc, &own); err != nil {
		return nil, err
	}
	for name, value := range o.kept {
		own[name] = value
	}
	return json.Marshal(own)
}
