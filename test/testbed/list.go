package testbed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// lists is the Podman service that the lists below ask; nil before KeepLists. A podman command for
// each list would cost far more: tests list what is left very often.
var lists *Podman

// listLimit is longer than a service needs to start and to answer on a busy host.
const listLimit = time.Minute

// listClient starts that service and returns an HTTP client of it.
var listClient = sync.OnceValues(func() (*http.Client, error) {
	if lists == nil {
		return nil, errors.New("lists need testbed.KeepLists")
	}
	ctx, cancel := context.WithTimeout(context.Background(), listLimit)
	defer cancel()
	if err := lists.Start(ctx); err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", lists.Socket())
	}
	return &http.Client{Timeout: listLimit, Transport: &http.Transport{DialContext: dial}}, nil
})

// KeepLists lets the first list start the service, with its socket in a directory; end kills it.
// Main calls it before the tests.
func KeepLists(dir string) (end func()) {
	lists = NewPodman(filepath.Join(dir, "lists.sock"))
	return lists.Kill
}

// object is what the lists have in common: each kind has its name in one of these members.
type object struct {
	Names               []string
	Name, Status, State string
	Spec                struct{ Name string }
}

// listed returns the kind, name and state of the objects in a list of the API.
func listed(kind, path string) ([]string, error) {
	client, err := listClient()
	if err != nil {
		return nil, err
	}
	reply, err := client.Get("http://podman/v4.0.0/libpod/" + path)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(body)))
	}
	var objects []object
	if err == nil {
		err = json.Unmarshal(body, &objects)
	}
	if err != nil {
		return nil, fmt.Errorf("list with %s: %w", path, err)
	}
	found := make([]string, 0, len(objects))
	for _, o := range objects {
		name := cmp.Or(strings.Join(o.Names, " "), o.Name, o.Spec.Name)
		found = append(found, strings.TrimSpace(fmt.Sprintf("%s %s %s", kind, name, cmp.Or(o.State, o.Status))))
	}
	return found, nil
}
