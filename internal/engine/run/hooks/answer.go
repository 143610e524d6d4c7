package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/podtask/podtask/pkg/service"
)

// maxAnswer is the most bytes of an answer.
const maxAnswer = 64 << 10

// Answer is what a hook says.
type Answer struct {
	// Status is SUCCEEDED, FAILED or IN_PROGRESS.
	Status service.HookStatus
	// CallBackDelay is the pause before the next call of a hook that is in progress, 1 s to 24 h;
	// 0 if the answer does not say.
	CallBackDelay time.Duration
	// Details are those for the next call; nil for none.
	Details json.RawMessage
}

// maxDelay is the longest callBackDelay: no hook may take longer.
const maxDelay = 24 * time.Hour

// ParseAnswer reads an answer: an object with hookStatus, and with callBackDelay in seconds (AWS'
// pages call it callBackDelaySeconds, too) and hookDetails if it is in progress. Other members
// are ignored, as ECS ignores them.
func ParseAnswer(data []byte) (a Answer, err error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return a, errors.New("it answered nothing: an answer is JSON such as {\"hookStatus\": \"SUCCEEDED\"}")
	}
	if len(data) > maxAnswer {
		return a, fmt.Errorf("its answer has more than %d bytes", maxAnswer)
	}
	var members map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&members); err != nil || members == nil {
		return a, errors.New("its answer is not a JSON object such as {\"hookStatus\": \"SUCCEEDED\"}")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return a, errors.New("there is more than one JSON object in its answer")
	}
	var status string
	switch raw, given := members["hookStatus"]; {
	case !given:
		return a, errors.New("its answer has no hookStatus")
	case json.Unmarshal(raw, &status) != nil || !known(service.HookStatus(status)):
		return a, errors.New("hookStatus of its answer is none of SUCCEEDED, FAILED and IN_PROGRESS")
	}
	a.Status = service.HookStatus(status)
	if a.Status != service.HookInProgress {
		return a, nil
	}
	for _, name := range []string{"callBackDelay", "callBackDelaySeconds"} {
		raw, given := members[name]
		if !given || string(raw) == "null" {
			continue
		}
		var seconds float64
		if json.Unmarshal(raw, &seconds) != nil || !(seconds >= 1 && seconds <= maxDelay.Seconds()) {
			return Answer{}, fmt.Errorf("%s of its answer is not a number of seconds from 1 to %.0f", name, maxDelay.Seconds())
		}
		a.CallBackDelay = time.Duration(math.Round(seconds * float64(time.Second)))
	}
	if raw := members["hookDetails"]; len(raw) > 0 && string(raw) != "null" {
		a.Details = raw
	}
	return a, nil
}

func known(s service.HookStatus) bool {
	return s == service.HookSucceeded || s == service.HookFailed || s == service.HookInProgress
}
