package refs

import (
	"path"
	"strings"

	"github.com/podtask/podtask/internal/lazy"
)

// Reference is a name in a definition that this host must resolve.
type Reference struct {
	// Names are its spellings, the most telling one first. A rule that matches any of
	// them answers the reference.
	Names []string
	// Whole is a secret's valueFrom with all that selects a part of it; empty where it
	// selects nothing. A rule that matches only Whole gives that part itself.
	Whole string
	// Stage and Version select a version of a secret.
	Stage, Version string
	// Place is the file in a tree: source, a clean relative path.
	Place string

	// only begins the patterns that may match: a volume of this host needs no rule.
	only string
}

// Kind is the kind of resource that a reference names.
type Kind string

// The kinds of references.
const (
	Secret Kind = "secret"
	File   Kind = "file"
	Volume Kind = "volume"
	Role   Kind = "role"
)

var arn = lazy.MustCompile(`^arn:[^:]*:([^:]*):[^:]*:[^:]*:(.*)$`)

// OfSecret returns the reference to a secret. ID is its ARN or name, whole the valueFrom
// that it is taken from.
func OfSecret(id, whole, stage, version string) Reference {
	r := Reference{Names: []string{id}, Stage: stage, Version: version, Place: placeOf(id)}
	if whole != id {
		r.Whole = whole
	}
	if stage != "" && stage != "AWSCURRENT" {
		r.Place += "@" + stage
	}
	if version != "" {
		r.Place += "@" + version
	}
	return r
}

// OfKey returns the reference to a key of a Secret of Kubernetes.
func OfKey(name, key string) Reference {
	id := name + "/" + key
	return Reference{Names: []string{id}, Place: clean("secret", id)}
}

// OfRole returns the reference to the credentials of a role by its ARN. Only a pattern that
// begins with role: matches: a host may have credentials for roles in another way.
func OfRole(id string) Reference {
	return Reference{Names: []string{rolePrefix + id}, Place: placeOf(id), only: rolePrefix}
}

const rolePrefix = "role:"

// OfExecutionRole returns the reference to the credentials with which what happens outside of the
// containers is done, by the ARN of the role. Only a pattern that begins with execution-role: matches.
func OfExecutionRole(id string) Reference {
	return Reference{Names: []string{executionRolePrefix + id}, Place: placeOf(id), only: executionRolePrefix}
}

const executionRolePrefix = "execution-role:"

// OfFunction returns the reference to a Lambda function by its ARN, which a hook of a service
// names. Only a pattern that begins with arn:aws:lambda: (or that of another partition) matches: an
// entry for all that is on AWS is for values, and its program is not called as a hook.
func OfFunction(id string) Reference {
	r := Reference{Names: []string{id}, Place: placeOf(id), only: "arn:aws:lambda:"}
	if parts := strings.SplitN(id, ":", 4); len(parts) == 4 && parts[0] == "arn" {
		r.only = strings.Join(parts[:3], ":") + ":"
	}
	return r
}

// NameSource begins a source that is a host name: what a registry of Cloud Map stands for.
const NameSource = "name:"

// OfRegistry returns the reference to a service of Cloud Map by its ARN, which serviceRegistries of a service name. Only a pattern
// that begins with arn:aws:servicediscovery: (or that of another partition) matches.
func OfRegistry(id string) Reference {
	r := OfFunction(id)
	if !strings.HasPrefix(id, "arn:") {
		r.only = "arn:aws:servicediscovery:"
	}
	return r
}

// OfAlarm returns the reference to an alarm by its name. Only a pattern that begins with alarm:
// matches.
func OfAlarm(name string) Reference {
	return Reference{Names: []string{alarmPrefix + name}, Place: clean("alarm", name), only: alarmPrefix}
}

const alarmPrefix = "alarm:"

// OfObject returns the reference to an object of S3 by its ARN.
func OfObject(id string) Reference {
	return Reference{Names: []string{id}, Place: placeOf(id)}
}

// placeOf returns the file in a tree for an ARN or the name of an SSM parameter: SERVICE/NAME.
func placeOf(id string) string {
	m := arn.FindStringSubmatch(id)
	if m == nil {
		return clean("ssm", id)
	}
	service, name := m[1], m[2]
	name = strings.TrimPrefix(name, "secret:")
	if service == "ssm" {
		name = strings.TrimPrefix(name, "parameter")
	}
	return clean(service, name)
}

// OfVolume returns the reference to a volume by its name in the definition. Remote is what
// the volume is: efs:FILESYSTEM/PATH, fsx:FILESYSTEM/PATH, s3files:ARN/PATH, nfs:SERVER:/PATH,
// plugin:DRIVER/NAME, or empty for a volume that this host can make: then only a pattern that
// begins with volume: matches.
func OfVolume(name, remote string) Reference {
	r := Reference{Names: []string{"volume:" + name}, Place: clean("volume", name), only: "volume:"}
	if remote != "" {
		r.Names, r.only = []string{remote, "volume:" + name}, ""
		kind, rest, _ := strings.Cut(remote, ":")
		r.Place = clean(kind, strings.ReplaceAll(rest, ":", "/"))
	}
	return r
}

// clean joins a directory and a name so that the name cannot leave the directory.
func clean(dir, name string) string { return path.Join(dir, path.Clean("/"+name)) }

// Name is the most telling spelling.
func (r Reference) Name() string { return r.Names[0] }
