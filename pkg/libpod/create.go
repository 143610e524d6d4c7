package libpod

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	entities "github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/containers/podman/v5/pkg/specgen"
)

// CreateContainer creates the container, or adopts one with the same name, task
// and specification, and returns its id.
//
// Classes to expect: Conflict, NoImage (500 on 4.3.1, 404 later), InvalidSpec,
// NotFound (the pod).
func (c *Client) CreateContainer(ctx context.Context, s ContainerSpec) (string, error) {
	root, err := c.runsAsRoot(ctx, s)
	if err != nil {
		return "", err
	}
	spec, err := containerSpec(s, root)
	if err != nil {
		return "", fail(ctx, "create container", s.Name, err)
	}
	if s.Bridge != nil {
		if err := c.place(ctx, spec, *s.Bridge); err != nil {
			return "", err
		}
	}
	var id string
	err = c.create(ctx, "create container", s.Name, func(ctx context.Context) (err error) {
		id, err = c.sendContainer(ctx, spec)
		return err
	})
	if errors.Is(err, Conflict) {
		return c.adoptContainer(ctx, s, spec.Labels[specLabel], err)
	}
	return id, err
}

// runsAsRoot reports whether the container's user, which may be the image's, is
// root.
func (c *Client) runsAsRoot(ctx context.Context, s ContainerSpec) (bool, error) {
	if s.User != "" || s.Image == "" { // the latter is refused later
		return isRoot(s.User), nil
	}
	if user, known := c.users.Load(s.Image); known {
		return isRoot(user.(string)), nil
	}
	image, err := c.Image(ctx, s.Image)
	if err != nil {
		var e *Error
		if errors.As(err, &e) && e.Class == NotFound {
			e.Op, e.Object, e.Class = "create container", s.Name, NoImage
		}
		return false, err
	}
	if s.Image == image.ID { // a name may be another image's tomorrow
		c.users.Store(image.ID, image.User)
	}
	return isRoot(image.User), nil
}

// sendContainer makes the request. One with the host's IPC namespace is made by
// hand: Podman (4.3.1) puts its default size of /dev/shm into every request that does
// not say null, and then refuses that size together with the namespace.
func (c *Client) sendContainer(ctx context.Context, spec *specgen.SpecGenerator) (string, error) {
	if spec.IpcNS.NSMode != specgen.Host {
		made, err := containers.CreateWithSpec(ctx, spec, nil)
		return made.ID, err
	}
	body, err := withNull(spec, "shm_size")
	if err != nil {
		return "", err
	}
	conn, err := bindings.GetClient(ctx)
	if err != nil {
		return "", err
	}
	response, err := conn.DoRequest(ctx, bytes.NewReader(body), http.MethodPost, "/containers/create", nil, nil)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var made entities.ContainerCreateResponse
	return made.ID, response.Process(&made)
}

// withNull encodes v with a member set to null.
func withNull(v any, member string) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	members[member] = json.RawMessage("null")
	return json.Marshal(members)
}

// adoptContainer decides whether the container that stands in the way is the one
// asked for. conflict is what Podman said to its creation.
func (c *Client) adoptContainer(ctx context.Context, s ContainerSpec, spec string, conflict error) (string, error) {
	found, err := c.inspect(ctx, s.Name)
	switch {
	case errors.Is(err, NotFound) && heldByStorage(conflict):
		return "", c.freeName(ctx, s.Name)
	case errors.Is(err, NotFound):
		return "", conflict // the name is a pod's, or the container went away just now
	case err != nil:
		return "", err
	}
	if err := adoptable(labelsOf(found), s.TaskID, spec); err != nil {
		return "", fail(ctx, "adopt container", s.Name, err)
	}
	return found.ID, nil
}

// heldByStorage reports whether a name is taken in Podman's storage and not, or
// not only, among its containers: what a service leaves that was killed in the
// middle of a create. (4.3.1 to 5.x, the words of libpod.)
func heldByStorage(conflict error) bool {
	var e *Error
	return errors.As(conflict, &e) && strings.Contains(e.Cause, "creating container storage")
}

// freeName removes what holds a name in Podman's storage though there is no
// container; Podman's removal looks there first. The create may succeed after
// that, which class Temporary says.
func (c *Client) freeName(ctx context.Context, name string) error {
	if err := c.remove(ctx, name); err != nil {
		return err
	}
	return &Error{Op: "create container", Object: name, Class: Temporary, Cause: "Podman was interrupted in an earlier create and its storage held the name; the remains are removed now"}
}
