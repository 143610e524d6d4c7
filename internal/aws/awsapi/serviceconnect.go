package awsapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/pkg/service"
)

// connectMember and registriesMember are members of a service that give it names.
const connectMember, registriesMember = "serviceConnectConfiguration", "serviceRegistries"

// connectIn is serviceConnectConfiguration.
type connectIn struct {
	Enabled   bool               `json:"enabled"`
	Namespace string             `json:"namespace"`
	Services  []connectServiceIn `json:"services"`
	Log       *connectLogIn      `json:"logConfiguration"`
	AccessLog *accessLogIn       `json:"accessLogConfiguration"`
}

type connectServiceIn struct {
	PortName      string            `json:"portName"`
	DiscoveryName string            `json:"discoveryName"`
	Aliases       []clientAliasIn   `json:"clientAliases"`
	Ingress       *int              `json:"ingressPortOverride"`
	Timeout       *connectTimeoutIn `json:"timeout"`
	TLS           *connectTLSIn     `json:"tls"`
}

type clientAliasIn struct {
	Port *int         `json:"port"`
	Name string       `json:"dnsName"`
	Test *testRulesIn `json:"testTrafficRules"`
}

type registryIn struct {
	ARN           string `json:"registryArn"`
	Port          *int   `json:"port"`
	Container     string `json:"containerName"`
	ContainerPort *int   `json:"containerPort"`
}

// serviceNames returns the names of a service by its members; defaultNamespace is that of its cluster. registry names a registry of
// Cloud Map. notes say what has no effect.
func serviceNames(kept protocol.Fields, defaultNamespace string, registry func(arn string) (name string, ok bool)) (names service.Names, notes []string, err error) {
	var errs []error
	if raw := kept[connectMember]; protocol.Given(kept, connectMember) {
		var in connectIn
		if err := json.Unmarshal(raw, &in); err != nil {
			return names, nil, err
		}
		if in.Enabled {
			names, notes, err = in.names(defaultNamespace)
			errs = append(errs, err)
		}
	}
	if raw := kept[registriesMember]; protocol.Given(kept, registriesMember) {
		var in []registryIn
		if err := json.Unmarshal(raw, &in); err != nil {
			return names, nil, err
		}
		for i, r := range in {
			note, err := r.add(fmt.Sprintf("%s[%d]", registriesMember, i), &names, registry)
			errs = append(errs, err)
			if note != "" {
				notes = append(notes, note)
			}
		}
	}
	return names, notes, joined(slices.DeleteFunc(errs, func(err error) bool { return err == nil }))
}

// names returns the names of serviceConnectConfiguration as ECS makes them: a client alias without a name is called
// DISCOVERY.NAMESPACE, and a discovery name that is not given is the name of the port mapping.
func (in connectIn) names(defaultNamespace string) (names service.Names, notes []string, err error) {
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, protocol.Invalidf(connectMember+format, args...))
	}
	names.Namespace = namespaceName(in.Namespace)
	if names.Namespace == "" {
		names.Namespace = namespaceName(defaultNamespace)
	}
	switch err := service.CheckNamespace(names.Namespace); {
	case names.Namespace == "":
		fail(".namespace is required: the cluster has no serviceConnectDefaults with one")
	case err != nil:
		fail(".namespace: %v", err)
	}
	none := func(path string, given bool) {
		if given {
			notes = append(notes, fmt.Sprintf("keeps %s%s, which has no effect on this host.", connectMember, path))
		}
	}
	none(".logConfiguration", in.Log != nil)
	none(".accessLogConfiguration", in.AccessLog != nil)
	for i, s := range in.Services {
		path := fmt.Sprintf(".services[%d]", i)
		none(path+".ingressPortOverride", s.Ingress != nil)
		none(path+".timeout", s.Timeout != nil)
		none(path+".tls", s.TLS != nil)
		if s.PortName == "" {
			fail("%s.portName is required", path)
			continue
		}
		own := s.DiscoveryName
		if own == "" {
			own = s.PortName
		}
		own += "." + names.Namespace
		if len(s.Aliases) == 0 {
			names.Offered = append(names.Offered, service.Name{Name: own, PortName: s.PortName})
		}
		for j, a := range s.Aliases {
			at := fmt.Sprintf("%s.clientAliases[%d]", path, j)
			none(at+".testTrafficRules", a.Test != nil)
			if a.Port == nil || *a.Port < 1 || *a.Port > 65535 {
				fail("%s.port is 1 to 65535", at)
				continue
			}
			name := a.Name
			if name == "" {
				name = own
			}
			names.Offered = append(names.Offered, service.Name{Name: strings.ToLower(name), Port: uint16(*a.Port), PortName: s.PortName})
		}
	}
	return names, notes, joined(errs)
}

// namespaceName is the name of a namespace of Cloud Map that is given by its name or its ARN.
func namespaceName(text string) string {
	if strings.HasPrefix(text, "arn:") {
		if _, name, ok := strings.Cut(text, ":namespace/"); ok {
			return name
		}
	}
	return text
}

// add adds the name that a registry stands for.
func (r registryIn) add(path string, names *service.Names, registry func(string) (string, bool)) (note string, err error) {
	if r.ARN == "" {
		return "", protocol.Invalidf("%s.registryArn is required", path)
	}
	text, ok := registry(r.ARN)
	if !ok {
		return fmt.Sprintf("keeps %s, which has no effect on this host: no entry of podtask.toml says which name %s stands for. Add [[reference]] with match = %q and source = \"name:orders.shop\".", path, protocol.Shortened(r.ARN), protocol.Shortened(r.ARN)), nil
	}
	name := service.Name{Name: text}
	if _, domain, dots := strings.Cut(text, "."); names.Namespace == "" {
		names.Namespace = service.DefaultNamespace
		if dots {
			names.Namespace = domain
		}
	}
	var errs []error
	for member, n := range map[string]*int{"port": r.Port, "containerPort": r.ContainerPort} {
		if n != nil && (*n < 1 || *n > 65535) {
			errs = append(errs, protocol.Invalidf("%s.%s is 1 to 65535", path, member))
		}
	}
	if (r.Container == "") != (r.ContainerPort == nil) {
		errs = append(errs, protocol.Invalidf("%s: containerName and containerPort belong together", path))
	}
	if err := errors.Join(errs...); err != nil {
		return "", joined(errs)
	}
	switch {
	case r.ContainerPort != nil:
		name.Container, name.ContainerPort, name.Port = r.Container, uint16(*r.ContainerPort), uint16(*r.ContainerPort)
	case r.Port != nil:
		name.Port = uint16(*r.Port)
	}
	names.Offered = append(names.Offered, name)
	return "", nil
}
