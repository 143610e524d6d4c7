package taskdef

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/pkg/taskdef/doctree"
	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// SecretValue is the source of a secret. It never holds the secret.
type SecretValue struct {
	// ValueFrom is the text of the document.
	ValueFrom string `json:"valueFrom"`
	// ID is ValueFrom without what selects a part of it: the ARN of a Secrets
	// Manager secret, the ARN or name of an SSM parameter, or for a file, the ARN of an
	// object of S3. It is empty where ValueFrom is a source itself.
	ID string `json:"id,omitempty"`
	// JSONKey selects a member of a secret that is a JSON object; empty for the
	// whole text.
	JSONKey string `json:"jsonKey,omitempty"`
	// VersionStage and VersionID select a version on AWS. Programs and trees know them; any
	// other source has one version only.
	VersionStage string `json:"versionStage,omitempty"`
	VersionID    string `json:"versionID,omitempty"`
	// Source is the place of the value on this host: podman:NAME, file:PATH, env:NAME, credential:NAME, command:LINE or
	// tree:DIRECTORY:NAME (package secrets). It is empty for a secret that is mapped to nothing, which Report.Needs
	// names.
	Source string `json:"source,omitempty"`
}

// Secret is a secret given to a container as a variable.
type Secret struct {
	Name string `json:"name"`
	SecretValue
	// Parts, if there are any, make the value instead of SecretValue, one after the other. Only a
	// Kubernetes Pod has such variables: those whose value names a secret one, as in "user:$(PASSWORD)".
	Parts []SecretPart `json:"parts,omitempty"`
}

// SecretPart is a part of the value of a variable: a text, or a secret.
type SecretPart struct {
	Text   string       `json:"text,omitempty"`
	Secret *SecretValue `json:"secret,omitempty"`
}

// Values are the secrets that a variable holds.
func (s Secret) Values() []SecretValue {
	if len(s.Parts) == 0 {
		return []SecretValue{s.SecretValue}
	}
	var out []SecretValue
	for _, p := range s.Parts {
		if p.Secret != nil {
			out = append(out, *p.Secret)
		}
	}
	return out
}

// SecretFile is a secret given to a container as a file (x-podtask).
type SecretFile struct {
	Path string `json:"path"` // absolute, in the container
	// Mode is the file's permissions, 0400 where the document has none; UID and
	// GID its owner in the container.
	Mode uint32 `json:"mode"`
	UID  int    `json:"uid,omitempty"`
	GID  int    `json:"gid,omitempty"`
	SecretValue
}

// secretSources are the ways in which a secret may come from this host.
var secretSources = []string{"podman:", "file:", "env:", "credential:", "command:", "tree:", "aws:"}

// IsSecretSource reports whether s names a source of this host, as in
// "file:PATH", rather than a secret of AWS.
func IsSecretSource(s string) bool {
	return slices.ContainsFunc(secretSources, func(prefix string) bool {
		rest, ok := strings.CutPrefix(s, prefix)
		return ok && rest != ""
	})
}

const secretSourceRule = "write podman:NAME, file:PATH, env:NAME, credential:NAME, command:LINE, tree:DIRECTORY:NAME or aws:NAME"

// The ARN is only a name here, so that one with words for region and account, as
// templates have them, is as good as another.
var (
	secretARN    = lazy.MustCompile(`^(arn:aws[a-z-]*:secretsmanager:[^:]*:[^:]*:secret:[^:]+)(?::([^:]*):([^:]*):([^:]*))?$`)
	parameterARN = lazy.MustCompile(`^arn:aws[a-z-]*:ssm:[^:]*:[^:]*:parameter/[A-Za-z0-9_./-]+$`)
	parameter    = lazy.MustCompile(`^[A-Za-z0-9_./-]+$`)
)

// longestARN is the greatest length of an ARN on AWS, with room for the suffixes of a secret's.
const longestARN = 4096

// ParseSecretValue reads the valueFrom of a secret: the ARN of a Secrets Manager
// secret, with ":json-key:version-stage:version-id" behind it or not, the ARN or
// name of an SSM parameter, or a source of this host. The error says what is
// wrong with it.
func ParseSecretValue(valueFrom string) (SecretValue, error) {
	v := SecretValue{ValueFrom: valueFrom}
	if IsSecretSource(valueFrom) {
		v.Source = valueFrom
		return v, nil
	}
	if len(valueFrom) > longestARN {
		return v, fmt.Errorf("valueFrom %s is longer than an ARN may be, %d characters", quote(valueFrom), longestARN)
	}
	if m := secretARN.FindStringSubmatch(valueFrom); m != nil {
		v.ID, v.JSONKey, v.VersionStage, v.VersionID = m[1], m[2], m[3], m[4]
		return v, nil
	}
	if parameterARN.MatchString(valueFrom) || len(valueFrom) <= 1011 && parameter.MatchString(valueFrom) {
		v.ID = valueFrom
		return v, nil
	}
	switch {
	case valueFrom == "":
		return v, fmt.Errorf("valueFrom is missing")
	case strings.Contains(valueFrom, ":secretsmanager:"):
		return v, fmt.Errorf("valueFrom %s is not the ARN of a secret, with nothing or with :json-key:version-stage:version-id behind it", quote(valueFrom))
	}
	return v, fmt.Errorf("valueFrom %s is neither an ARN of Secrets Manager or SSM, nor the name of a parameter, nor a source", quote(valueFrom))
}

// decodeFileValue decodes a member that says where the content of a file comes from: like
// a secret, or from S3.
func decodeFileValue(c cursor) SecretValue {
	if c.node != nil && s3ARN.MatchString(c.node.Text) && c.str() != "" {
		return withSource(c, SecretValue{ValueFrom: c.node.Text, ID: c.node.Text})
	}
	return decodeSecretValue(c)
}

// decodeSecretValue decodes a member that says where a secret comes from.
func decodeSecretValue(c cursor) SecretValue {
	s := c.str()
	if s == "" || c.failed() {
		return SecretValue{}
	}
	v, err := ParseSecretValue(s)
	if err != nil {
		c.wrong(err.Error(), secretSourceRule)
		return SecretValue{}
	}
	return withSource(c, v)
}

func decodeSecrets(c cursor) []Secret {
	var secrets []Secret
	for _, item := range c.list(`write a list of {"name": ..., "valueFrom": ...}`) {
		item.want(doctree.Object, `write {"name": ..., "valueFrom": ...}`)
		secrets = append(secrets, Secret{Name: item.at("name").str(), SecretValue: decodeSecretValue(item.at("valueFrom"))})
	}
	return secrets
}

func decodeRepositoryCredentials(c cursor) *SecretValue {
	if !c.filled() {
		return nil
	}
	c.want(doctree.Object, "")
	v := decodeSecretValue(c.at("credentialsParameter"))
	return &v
}

func decodeSecretFiles(c cursor) []SecretFile {
	var files []SecretFile
	for _, item := range c.list(`write a list of {"path": ..., "valueFrom": ...}`) {
		item.want(doctree.Object, `write {"path": ..., "valueFrom": ...}`)
		files = append(files, SecretFile{
			Path: item.at("path").str(), Mode: decodeFileMode(item.at("mode"), 0o400),
			UID: int(item.at("uid").integer(0, 0)), GID: int(item.at("gid").integer(0, 0)),
			SecretValue: decodeFileValue(item.at("valueFrom")),
		})
	}
	return files
}

// checkSecretValue reports a secret that cannot be had; the rules stand at the member
// that says where it comes from.
func checkSecretValue(r rules, v SecretValue) {
	switch {
	case v.ValueFrom == "":
		r.require(false, "say where the secret comes from", "%s is missing", r.path[len(r.path)-1])
	case v.Source == "":
		needRule(r, "--map-secret "+shellWord(v.ID)+"=SOURCE", refs.Secret, v.ID, fmt.Sprintf("the secret %s is on AWS and mapped to nothing here", quote(v.ID)))
	default:
		r.require(IsSecretSource(v.Source), secretSourceRule, "the source of the secret is not valid")
	}
}

func checkSecrets(r rules, c Container) {
	seen := make(map[string]string)
	for _, v := range c.Environment {
		seen[v.Name] = "a variable"
	}
	for i, s := range c.Secrets {
		in := r.in("secrets").item(i)
		complaint := envNameComplaint(s.Name)
		if other := seen[s.Name]; complaint == "" && other != "" {
			complaint = fmt.Sprintf("the name %s is taken by %s", quote(s.Name), other)
		}
		in.in("name").require(complaint == "", "", "%s", complaint)
		seen[s.Name] = "another secret"
		for _, v := range s.Values() {
			checkSecretValue(in.in("valueFrom"), v)
		}
	}
	if c.RepositoryCredentials != nil {
		checkSecretValue(r.in("repositoryCredentials").in("credentialsParameter"), *c.RepositoryCredentials)
	}
	paths := make(map[string]bool)
	for i, f := range c.Extensions.SecretFiles {
		in := r.in(extensionMember).in("secretFiles").item(i)
		checkAbsolutePath(in.in("path"), "path", f.Path)
		in.in("path").require(!paths[f.Path], "choose another path", "two secrets have the path %s", quote(f.Path))
		paths[f.Path] = true
		in.in("mode").require(f.Mode <= 0o777, "", "mode is out of range: it must be 0000 to 0777")
		checkSecretValue(in.in("valueFrom"), f.SecretValue)
	}
}
