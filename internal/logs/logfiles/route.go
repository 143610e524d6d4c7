package logfiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"time"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/logs/logroute"
)

// Route is the progress of the delivery of a container's output.
type Route struct {
	// Position is the position at which delivery continues.
	Position logroute.Position `json:"position"`
	// Until is the time of the last line that was delivered; zero: none was.
	Until time.Time `json:"until,omitzero"`
	// LostBytes of the files, and LostLines, were given up.
	LostBytes int64 `json:"lostBytes,omitempty"`
	LostLines int64 `json:"lostLines,omitempty"`
	// Error is the reason for which delivery does not proceed, since Since; empty: it does.
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

var errDamaged = errors.New("the position of the log is damaged")

func (f Files) routePath() string { return f.Path() + ".route" }

// Load returns the route that was saved last; that of the beginning if none was. It is the
// beginning too where the file is damaged, which an error says.
func (f Files) Load() (Route, error) {
	data, err := os.ReadFile(f.routePath())
	if errors.Is(err, fs.ErrNotExist) {
		return Route{}, nil
	}
	if err != nil {
		return Route{}, err
	}
	sum, text, _ := bytes.Cut(data, []byte("\n"))
	var r Route
	if string(sum) != checksum(text) || json.Unmarshal(text, &r) != nil {
		return Route{}, errDamaged
	}
	return r, nil
}

// Save saves a route. It does not sync: after a power cut an older one may be there, so that
// lines are delivered twice, never left out. It fails if the files were removed.
func (f Files) Save(r Route) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(f.routePath(), append([]byte(checksum(text)+"\n"), text...), 0o600); err != nil {
		return fmt.Errorf("save the position of the log: %w", err)
	}
	return nil
}

func checksum(text []byte) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)) }
