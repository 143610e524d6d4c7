package hostview

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/podtask/podtask/internal/cli/top"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/api"
)

// The most that a host may tell: a few bytes of JSON may become a large value here.
const (
	// maxEntries is the number of tasks, and of services.
	maxEntries = 10_000
	// maxEntry is the number of bytes, maxObjects that of objects, of one of them with all that it has.
	maxEntry   = 4 << 20
	maxObjects = 20_000
)

// decode reads one value.
func decode(text []byte, v any) error {
	if raw, ok := v.(*json.RawMessage); ok { // its entries are read one by one
		*raw = text
		return nil
	}
	if n := bytes.Count(text, []byte("{")); len(text) > maxEntry || n > maxObjects {
		return fmt.Errorf("it tells too much at once: %d bytes with %d objects", len(text), n)
	}
	return json.Unmarshal(text, v)
}

// list asks a host for a list, and checks each entry before it reads the next one.
func list[T any](ctx context.Context, h *Host, call string, check func(T) error) (all []T, err error) {
	var text json.RawMessage
	if err := h.call(ctx, call, "", &text); err != nil || len(text) == 0 || string(text) == "null" {
		return nil, err
	}
	entries := json.NewDecoder(bytes.NewReader(text))
	if begin, err := entries.Token(); err != nil || begin != json.Delim('[') {
		return nil, fmt.Errorf("it tells %s in another form than a list", call)
	}
	for entries.More() {
		var one T
		var raw json.RawMessage
		if err := entries.Decode(&raw); err != nil {
			return nil, err
		}
		if err := decode(raw, &one); err != nil {
			return nil, err
		}
		if err := check(one); err != nil {
			return nil, err
		}
		if all = append(all, one); len(all) > maxEntries {
			return nil, fmt.Errorf("it tells of more than %d %s", maxEntries, call)
		}
	}
	return all, nil
}

var (
	taskID   = lazy.MustCompile(`^[0-9a-f]{32}$`)
	safeName = lazy.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
)

// checkTask refuses IDs and names that are none: they become arguments of commands and parts of links.
func checkTask(t top.Task) error {
	if !taskID.MatchString(t.ID) {
		return fmt.Errorf("it told of a task with the ID %q", cut(t.ID))
	}
	for _, c := range t.Containers {
		if !safeName.MatchString(c.Name) {
			return fmt.Errorf("it told of a container with the name %q", cut(c.Name))
		}
	}
	return nil
}

// checkService refuses names that are none: they become parts of links.
func checkService(s api.Service) error {
	if !safeName.MatchString(s.ServiceName) {
		return fmt.Errorf("it told of a service with the name %q", cut(s.ServiceName))
	}
	return nil
}

func cut(text string) string { return text[:min(len(text), 100)] }
