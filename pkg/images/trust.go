package images

import (
	"encoding/json"
	"fmt"
	"strings"
)

// trustRule is a requirement of a signature policy, containers-policy.json(5).
type trustRule struct {
	Type     string   `json:"type"`
	KeyPath  string   `json:"keyPath"`
	KeyPaths []string `json:"keyPaths"`
	Fulcio   struct {
		Email  string `json:"subjectEmail"`
		Issuer string `json:"oidcIssuer"`
	} `json:"fulcio"`
}

// AnyImage is the clause of Trust for a policy that demands nothing.
const AnyImage = "any image is accepted"

// Trust returns what a signature policy of Podman, the text of a policy.json, demands of images of a reference, as a
// clause: "any image is accepted", "the image is signed by /etc/pki/team.gpg". It is what Podman decides by, told: the
// signature itself is verified by Podman at each pull. The error is about a policy that is not valid.
func Trust(policy []byte, ref Ref) (string, error) {
	var p struct {
		Default    []trustRule                       `json:"default"`
		Transports map[string]map[string][]trustRule `json:"transports"`
	}
	if err := json.Unmarshal(policy, &p); err != nil {
		return "", fmt.Errorf("the signature policy is not valid: %w", err)
	}
	rules := p.Default
	for _, scope := range trustScopes(ref) {
		if own, found := p.Transports["docker"][scope]; found {
			rules = own
			break
		}
	}
	if len(rules) == 0 {
		return "", fmt.Errorf("the signature policy has no requirement for %s, and no default", ref)
	}
	var all []string
	for _, r := range rules {
		text, err := r.clause()
		if err != nil {
			return "", err
		}
		all = append(all, text)
	}
	return strings.Join(all, ", and "), nil
}

// trustScopes are the keys of a policy that an image can have, the first counts: the image, what contains it, patterns of
// its host, and the transport.
func trustScopes(ref Ref) []string {
	name := ref.registry + "/" + ref.path
	scopes := []string{ref.String()}
	for {
		scopes = append(scopes, name)
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			break
		}
		name = name[:i]
	}
	for {
		_, rest, more := strings.Cut(name, ".")
		if !more {
			return append(scopes, "")
		}
		name = rest
		scopes = append(scopes, "*."+name)
	}
}

func (r trustRule) clause() (string, error) {
	keys := r.KeyPaths
	if r.KeyPath != "" {
		keys = append(keys, r.KeyPath)
	}
	by := strings.Join(keys, " or ")
	switch {
	case r.Type == "insecureAcceptAnything":
		return AnyImage, nil
	case r.Type == "reject":
		return "no image is accepted", nil
	case r.Type == "sigstoreSigned" && r.Fulcio.Email != "":
		by = r.Fulcio.Email + " (" + r.Fulcio.Issuer + ")"
	case r.Type != "signedBy" && r.Type != "sigstoreSigned":
		return "", fmt.Errorf("the signature policy has an unknown requirement %q", clean(r.Type))
	}
	if by == "" {
		by = "a key that is in the policy itself"
	}
	return "the image is signed by " + clean(by), nil
}
