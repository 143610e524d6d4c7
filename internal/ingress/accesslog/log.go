package accesslog

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"
)

const (
	// partSize is how large a part becomes, and keptParts how many full ones are kept beside the present one.
	partSize  = 16 << 20
	keptParts = 3
)

// Log is an access log that is open. Its methods may be called concurrently.
type Log struct {
	path string
	size int64 // of a part

	mu      sync.Mutex
	file    *os.File
	written int64
	lost    uint64
}

// Open opens a log for appending. Its directory exists.
func Open(path string) (*Log, error) { return open(path, partSize) }

func open(path string, size int64) (*Log, error) {
	l := &Log{path: path, size: size}
	return l, l.reopen()
}

func (l *Log) reopen() (err error) {
	l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := l.file.Stat()
	if err != nil {
		return errors.Join(err, l.file.Close())
	}
	l.written = info.Size()
	return nil
}

// Write appends a record. A record that cannot be written is counted: requests do not wait for a disk.
func (l *Log) Write(record any) {
	line, err := json.Marshal(record)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.file != nil {
		line = append(line, '\n')
		if l.written > 0 && l.written+int64(len(line)) > l.size {
			l.rotate()
		}
		var n int
		n, err = l.file.Write(line)
		l.written += int64(n)
	}
	if err != nil {
		l.lost++
	}
}

// rotate begins a new part. If another process has done so, it continues with that one's.
func (l *Log) rotate() {
	mine, err := l.file.Stat()
	if err != nil {
		return
	}
	now, err := os.Stat(l.path)
	if err == nil && os.SameFile(mine, now) {
		for n := keptParts; n > 0; n-- {
			from := l.path
			if n > 1 {
				from += "." + strconv.Itoa(n-1)
			}
			if err := os.Rename(from, l.path+"."+strconv.Itoa(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return
			}
		}
	}
	old := l.file
	if err := l.reopen(); err != nil {
		l.file = old
		return
	}
	_ = old.Close()
}

// Lost is the number of records that could not be written.
func (l *Log) Lost() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Close closes the file. Records that come later are lost.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.file
	l.file = nil
	return f.Close()
}

// Parts are the files of a log, the oldest first.
func Parts(path string) (parts []string) {
	for n := keptParts; n > 0; n-- {
		if part := path + "." + strconv.Itoa(n); exists(part) {
			parts = append(parts, part)
		}
	}
	if exists(path) {
		parts = append(parts, path)
	}
	return parts
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }
