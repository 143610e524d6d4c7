package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// asTar is the part of tar that kubectl cp calls, where testbox has that name:
// tar cf - FILE, and tar -xmf - -C DIR.
func asTar(args []string, in io.Reader, out io.Writer) error {
	switch {
	case len(args) == 3 && args[0] == "cf":
		data, err := os.ReadFile(args[2])
		if err != nil {
			return err
		}
		w := tar.NewWriter(out)
		err = w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(args[2], "/"), Mode: 0o644, Size: int64(len(data))})
		if err == nil {
			_, err = w.Write(data)
		}
		return errors.Join(err, w.Close())
	case len(args) == 4 && args[0] == "-xmf":
		r := tar.NewReader(in)
		for {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			data, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(args[3], h.Name), data, 0o644); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("tar %v is not what kubectl cp calls", args)
}

// input prints a line of the standard input.
func input(*box, []string) error {
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	return say(os.Stdout, []string{"got " + strings.TrimSpace(line)})
}
