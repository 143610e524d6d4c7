package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// formatVersion is the version of the record format this package writes and
// the newest it reads.
const formatVersion = 1

const (
	recordMagic = "podtask-record"
	sumPrefix   = "sha256:"
	// maxHeader bounds the search for the end of the header line.
	maxHeader = 256
)

// Errors of records. Use errors.Is; the errors returned carry the key, the path
// and the reason.
var (
	// ErrCorrupt: the record is damaged. The error is a *CorruptError.
	ErrCorrupt = errors.New("record is corrupt")
	// ErrFuture: a newer podtask wrote the record. The error is a *FutureError.
	ErrFuture = errors.New("record is of a newer version")
)

// CorruptError reports a record that cannot be read. It satisfies
// errors.Is(err, ErrCorrupt).
type CorruptError struct {
	Key     string
	Path    string // where the record was found
	Reason  string
	MovedTo string // where it is now; empty when it was left in place
}

// Error names the fault and the file.
func (e *CorruptError) Error() string {
	if e.MovedTo == "" {
		return fmt.Sprintf("record %s is corrupt: %s; the file is %s", e.Key, e.Reason, e.Path)
	}
	return fmt.Sprintf("record %s is corrupt: %s; it was moved to %s and what it described is no longer managed", e.Key, e.Reason, e.MovedTo)
}

// Unwrap returns ErrCorrupt.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// FutureError reports a record whose format is newer than this program. The
// file is never touched. It satisfies errors.Is(err, ErrFuture).
type FutureError struct {
	Key     string
	Path    string
	Version uint64
}

// Error names the version of the record and the remedy.
func (e *FutureError) Error() string {
	return fmt.Sprintf("record %s has format version %d and this podtask reads up to %d: use the newer podtask that wrote %s",
		e.Key, e.Version, formatVersion, e.Path)
}

// Unwrap returns ErrFuture.
func (e *FutureError) Unwrap() error { return ErrFuture }

// encode puts the header before data.
func encode(data []byte) []byte {
	sum := sha256.Sum256(data)
	header := fmt.Sprintf("%s %d %s%s\n", recordMagic, formatVersion, sumPrefix, hex.EncodeToString(sum[:]))
	return append([]byte(header), data...)
}

// decode is the inverse of encode. The reason is empty when the record is good;
// version is set whenever the header tells it.
func decode(file []byte) (data []byte, version uint64, reason string) {
	head := file[:min(len(file), maxHeader)]
	end := bytes.IndexByte(head, '\n')
	if end < 0 {
		return nil, 0, fmt.Sprintf("no header line in its %d bytes", len(file))
	}
	fields := bytes.Split(file[:end], []byte(" "))
	if len(fields) < 2 || string(fields[0]) != recordMagic {
		return nil, 0, "the header line was not written by podtask"
	}
	version, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil || version == 0 {
		return nil, 0, "the header line holds no version"
	}
	if version > formatVersion {
		return nil, version, "newer version" // the rest of the line may mean anything
	}
	if len(fields) != 3 {
		return nil, version, "the header line holds no checksum"
	}
	data = file[end+1:]
	sum := sha256.Sum256(data)
	if string(fields[2]) != sumPrefix+hex.EncodeToString(sum[:]) {
		return nil, version, fmt.Sprintf("the checksum does not match the %d bytes of data", len(data))
	}
	return data, version, ""
}

// validKey tells whether key is 32 lower-case hexadecimal digits.
func validKey(key string) bool {
	if len(key) != 32 {
		return false
	}
	for _, c := range []byte(key) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
