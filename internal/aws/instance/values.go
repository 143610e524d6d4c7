package instance

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/aws/instance/payload"
	"github.com/podtask/podtask/internal/aws/instance/wire"
	"github.com/podtask/podtask/pkg/api"
)

// roles are the credentials of a task's roles, in memory. The application's are in a file too, which
// the agent reads for the containers; the file is in memory and goes with the task.
type roles struct {
	dir string

	mu      sync.Mutex
	held    map[string]wire.RoleCredentials // by the type of the role
	changed chan struct{}                   // closed at each change
}

func newRoles(dir string) *roles {
	return &roles{dir: dir, held: make(map[string]wire.RoleCredentials), changed: make(chan struct{})}
}

// process is the output of a credential_process of the AWS configuration.
type process struct {
	Version         int
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string `json:",omitempty"`
	Expiration      string `json:",omitempty"`
}

// roleFiles are the files of the credentials, by the type of the role.
var roleFiles = map[string]string{wire.RoleApplication: "task-role.json", wire.RoleExecution: "execution-role.json"}

// set replaces the credentials of a role.
func (r *roles) set(kind string, c wire.RoleCredentials) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := json.Marshal(process{1, c.AccessKeyID, c.SecretAccessKey, c.SessionToken, c.Expiration})
	if err != nil {
		return err
	}
	if err := r.write(roleFiles[kind], text); err != nil {
		return err
	}
	r.held[kind] = c
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

func (r *roles) write(name string, content []byte) error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(r.dir, name), content, 0o600)
}

// get returns the credentials of a role, and a channel that is closed when they change.
func (r *roles) get(kind string) (c wire.RoleCredentials, has bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, has = r.held[kind]
	return c, has, r.changed
}

// end drops what a task that has stopped does not need: everything but the execution role, with which
// its last logs are sent.
func (r *roles) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, wire.RoleApplication)
	files, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		if f.Name() != roleFiles[wire.RoleExecution] {
			err = errors.Join(err, os.Remove(filepath.Join(r.dir, f.Name())))
		}
	}
	return err
}

// remove drops all credentials and values.
func (r *roles) remove() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.held)
	return os.RemoveAll(r.dir)
}

// execution provides the execution role's credentials.
func (r *roles) execution(context.Context) (awscall.Credentials, error) {
	c, has, _ := r.get(wire.RoleExecution)
	if !has {
		return awscall.Credentials{}, errors.New("ECS has not sent the credentials of the execution role")
	}
	return awscall.Credentials{AccessKeyID: c.AccessKeyID, SecretAccessKey: c.SecretAccessKey, SessionToken: c.SessionToken}, nil
}

// valueError is a value of AWS that a task cannot have.
type valueError struct {
	need payload.Need
	err  error
}

func (e *valueError) Error() string {
	what := map[payload.Kind]string{
		payload.FromSSM: "unable to retrieve secret from ssm", payload.FromASM: "unable to retrieve secret from asm",
		payload.FromS3: "unable to download env file", payload.RegistryASM: "unable to retrieve private registry credentials",
		payload.RegistryECR: "unable to get a token of ECR",
	}[e.need.Kind]
	return fmt.Sprintf("ResourceInitializationError: %s %s: %v", what, e.need.Match, e.err)
}

func (e *valueError) Unwrap() error { return e.err }

// references fetches what a definition needs of AWS into files, and returns where they are.
func (w *taskWorker) references(ctx context.Context, needs []payload.Need) (out []api.Reference, err error) {
	parameters, err := w.parameters(ctx, needs)
	if err != nil {
		return nil, err
	}
	for i, n := range needs {
		name := fmt.Sprintf("value-%02d", i)
		switch n.Kind {
		case payload.Role:
			name = roleFiles[wire.RoleApplication]
		case payload.LogRole:
			name = roleFiles[wire.RoleExecution]
		default:
			value, known := parameters[n]
			if !known {
				if value, err = w.fetch(ctx, n); err != nil {
					return nil, &valueError{n, err}
				}
			}
			if err := w.roles.write(name, value); err != nil {
				return nil, err
			}
		}
		out = append(out, api.Reference{Match: n.Match, Source: "file:" + filepath.Join(w.roles.dir, name)})
	}
	return out, nil
}

// fetch reads a value from AWS.
func (w *taskWorker) fetch(ctx context.Context, n payload.Need) ([]byte, error) {
	calls := w.node.Calls.With(w.roles.execution, n.Region)
	if n.Instance {
		calls = w.node.Calls.With(w.node.Calls.Credentials, n.Region)
	}
	switch n.Kind {
	case payload.FromASM, payload.RegistryASM:
		return secret(ctx, calls, n.Name)
	case payload.FromS3:
		bucket, key, ok := strings.Cut(n.Name[strings.LastIndexByte(n.Name, ':')+1:], "/")
		if !ok {
			return nil, fmt.Errorf("%q names no object of S3", n.Name)
		}
		return calls.Get(ctx, bucket, key)
	case payload.RegistryECR:
		return registryToken(ctx, calls, n.Name)
	}
	return nil, fmt.Errorf("values of %q are not known", n.Kind)
}

// maxParameters is the largest number of parameters that one call may ask for.
const maxParameters = 10

// parameters reads all parameters of Parameter Store that a definition needs, up to ten with one call, as AWS's agent does: an
// execution role permits ssm:GetParameters, not ssm:GetParameter.
func (w *taskWorker) parameters(ctx context.Context, needs []payload.Need) (map[payload.Need][]byte, error) {
	byRegion := make(map[string][]payload.Need)
	for _, n := range needs {
		if n.Kind != payload.FromSSM {
			continue
		}
		region := n.Region
		if p := strings.Split(n.Name, ":"); len(p) > 3 && p[0] == "arn" {
			region = p[3]
		}
		byRegion[region] = append(byRegion[region], n)
	}
	values := make(map[payload.Need][]byte)
	for _, region := range slices.Sorted(maps.Keys(byRegion)) {
		calls := w.node.Calls.With(w.roles.execution, region)
		of := byRegion[region]
		slices.SortStableFunc(of, func(a, b payload.Need) int { return strings.Compare(a.Name, b.Name) })
		for len(of) > 0 {
			// A name may be asked for once only.
			var names []string
			batch := of
			for i, n := range of {
				if slices.Contains(names, n.Name) {
					continue
				}
				if len(names) == maxParameters {
					batch = of[:i]
					break
				}
				names = append(names, n.Name)
			}
			of = of[len(batch):]
			found, err := getParameters(ctx, calls, names)
			if err != nil {
				return nil, &valueError{batch[0], err}
			}
			for _, n := range batch {
				value, ok := found[n.Name]
				if !ok {
					return nil, &valueError{n, &awscall.Error{Operation: "GetParameters", Message: "invalid parameters: " + n.Name, Status: http.StatusBadRequest}}
				}
				values[n] = []byte(value)
			}
		}
	}
	return values, nil
}

// getParameters returns the values of parameters, by the names that are asked for: names or ARNs, with a version or label behind
// a colon. Those that do not exist are missing.
func getParameters(ctx context.Context, c *awscall.Client, names []string) (map[string]string, error) {
	var out struct {
		Parameters []struct{ Name, ARN, Selector, Value string }
	}
	in := map[string]any{"Names": names, "WithDecryption": true}
	if err := c.Call(ctx, awscall.SSM, "GetParameters", in, &out); err != nil {
		return nil, err
	}
	values := make(map[string]string)
	for _, name := range names {
		for _, p := range out.Parameters {
			_, path, _ := strings.Cut(name, ":parameter/")
			if name == p.Name+p.Selector || name == p.ARN+p.Selector || strings.HasPrefix(name, "arn:") && path == strings.TrimPrefix(p.Name, "/")+p.Selector {
				values[name] = p.Value
			}
		}
	}
	return values, nil
}

// secret reads a secret of Secrets Manager: ARN[:KEY[:STAGE[:VERSION]]].
func secret(ctx context.Context, c *awscall.Client, name string) ([]byte, error) {
	in, key := map[string]any{"SecretId": name}, ""
	if p := strings.Split(name, ":"); len(p) > 6 && p[0] == "arn" {
		c = c.With(c.Credentials, p[3])
		in["SecretId"] = strings.Join(p[:min(len(p), 7)], ":")
		p = append(p, "", "", "")
		key = p[7]
		if p[8] != "" {
			in["VersionStage"] = p[8]
		}
		if p[9] != "" {
			in["VersionId"] = p[9]
		}
	}
	var out struct{ SecretString *string }
	if err := c.Call(ctx, awscall.SecretsManager, "GetSecretValue", in, &out); err != nil {
		return nil, err
	}
	if out.SecretString == nil {
		return nil, errors.New("the secret is not a text")
	}
	if key == "" {
		return []byte(*out.SecretString), nil
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(*out.SecretString), &members); err != nil {
		return nil, errors.New("the secret is not a JSON object, so it has no keys")
	}
	v, ok := members[key]
	if !ok {
		return nil, fmt.Errorf("the secret has no key %q", key)
	}
	if text, ok := v.(string); ok {
		return []byte(text), nil
	}
	return json.Marshal(v)
}

// registryToken returns a user and a password for a registry of ECR, valid for twelve hours.
func registryToken(ctx context.Context, c *awscall.Client, registry string) ([]byte, error) {
	in := map[string]any{}
	if registry != "" {
		in["registryIds"] = []string{registry}
	}
	var out struct {
		AuthorizationData []struct {
			AuthorizationToken string `json:"authorizationToken"`
		} `json:"authorizationData"`
	}
	if err := c.Call(ctx, awscall.ECR, "GetAuthorizationToken", in, &out); err != nil {
		return nil, err
	}
	if len(out.AuthorizationData) == 0 {
		return nil, errors.New("the answer has no token")
	}
	token, err := base64.StdEncoding.DecodeString(out.AuthorizationData[0].AuthorizationToken)
	user, password, ok := strings.Cut(string(token), ":")
	if err != nil || !ok {
		return nil, errors.New("the token is not USER:PASSWORD in base64")
	}
	return json.Marshal(map[string]string{"username": user, "password": password})
}

// read finds credentials that an earlier process left: their files are there as long as the host
// runs.
func (r *roles) read() {
	for kind, name := range roleFiles {
		text, err := os.ReadFile(filepath.Join(r.dir, name))
		var p process
		if err != nil || json.Unmarshal(text, &p) != nil || p.AccessKeyID == "" {
			continue
		}
		if end, err := time.Parse(time.RFC3339, p.Expiration); err == nil && !time.Now().Before(end) {
			continue
		}
		r.mu.Lock()
		r.held[kind] = wire.RoleCredentials{AccessKeyID: p.AccessKeyID, SecretAccessKey: p.SecretAccessKey, SessionToken: p.SessionToken, Expiration: p.Expiration}
		r.mu.Unlock()
	}
}
