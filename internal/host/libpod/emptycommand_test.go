package libpod_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/podtask/podtask/internal/host/libpod"
)

// Podman drops the command of an image only where an entry point is given, so that of the image is.
func TestAnEmptyCommandKeepsTheEntryPoint(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		config     string
		spec       libpod.ContainerSpec
		entryPoint []string
		class      error
	}{
		{`{"Entrypoint":["/run"],"Cmd":["x"]}`, libpod.ContainerSpec{EmptyCommand: true}, []string{"/run"}, nil},
		{`{"Entrypoint":["/run"],"Cmd":["x"]}`, libpod.ContainerSpec{}, nil, nil},
		{`{"Entrypoint":["/run"],"Cmd":["x"]}`, libpod.ContainerSpec{EmptyCommand: true, Command: []string{"y"}}, nil, nil},
		{`{"Entrypoint":["/run"],"Cmd":["x"]}`, libpod.ContainerSpec{EmptyCommand: true, EntryPoint: []string{"/own"}}, []string{"/own"}, nil},
		{`{"Cmd":["x"]}`, libpod.ContainerSpec{EmptyCommand: true}, nil, libpod.InvalidSpec},
	} {
		var sent struct{ Entrypoint []string }
		c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/images/") {
				reply(w, http.StatusOK, `{"Id":"0123","Config":`+tt.config+`}`)
				return
			}
			if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
				t.Error(err)
			}
			reply(w, http.StatusCreated, `{"Id":"c"}`)
		})
		tt.spec.Name, tt.spec.TaskID, tt.spec.Image = "a", "t", "0123"
		_, err := c.CreateContainer(soon(t), tt.spec)
		if !errors.Is(err, tt.class) || !slices.Equal(sent.Entrypoint, tt.entryPoint) {
			t.Errorf("%+v: %q, %v", tt, sent.Entrypoint, err)
		}
	}
}

// Podman counts a last line of the journal that has no line feed besides those that were asked for.
func TestTheTailHasTheLinesAskedFor(t *testing.T) {
	t.Parallel()
	c := recorded(t, "5.4.2", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/logs") {
			reply(w, http.StatusNotFound, `{"cause":"no such container","message":"no such container","response":404}`)
			return
		}
		w.WriteHeader(http.StatusOK)
		for _, text := range []string{"l3\n", "noeol"} {
			frame := append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, text...)
			binary.BigEndian.PutUint32(frame[4:], uint32(len(text)))
			_, _ = w.Write(frame)
		}
	})
	var got []string
	err := c.Logs(soon(t), "a", libpod.LogOptions{Tail: 1}, func(l libpod.LogLine) { got = append(got, l.Text) })
	if err != nil || !slices.Equal(got, []string{"noeol"}) {
		t.Errorf("%q, %v", got, err)
	}
}
