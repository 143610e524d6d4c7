package arn

import "sync/atomic"

// Identity is the account and the region in ARNs.
type Identity struct {
	// Account has 12 digits.
	Account string
	Region  string
}

// Local is the identity of a host without AWS, which is the default.
var Local = Identity{Account: "000000000000", Region: "local"}

// current holds the identity of this process: whoever names a thing, in an answer, a label or a notice, names it alike.
var current atomic.Pointer[Identity]

// Use sets the identity of this process; empty fields are those of Local. A program calls it once, when it has read its
// configuration and before it names anything. It may be called concurrently with the rest of the package.
func Use(i Identity) {
	if i.Account == "" {
		i.Account = Local.Account
	}
	if i.Region == "" {
		i.Region = Local.Region
	}
	current.Store(&i)
}

func identity() Identity {
	if i := current.Load(); i != nil {
		return *i
	}
	return Local
}

// Account returns the account of ARNs, 12 digits.
func Account() string { return identity().Account }

// Region returns the region of ARNs.
func Region() string { return identity().Region }

// Of returns the ARN of a thing of another service than ECS; a service without regions, such as iam, has none in it.
func Of(service, thing string) string {
	region := Region()
	if service == "iam" {
		region = ""
	}
	return "arn:aws:" + service + ":" + region + ":" + Account() + ":" + thing
}

// Lasting returns an ARN of this process as it is with the identity Local: for what is recorded under an ARN and is to be
// found under another identity too.
func Lasting(arn string) string {
	i := identity()
	for _, prefix := range []struct{ now, local string }{
		{"arn:aws:ecs:" + i.Region + ":" + i.Account + ":", "arn:aws:ecs:" + Local.Region + ":" + Local.Account + ":"},
		{"arn:aws:iam::" + i.Account + ":", "arn:aws:iam::" + Local.Account + ":"},
	} {
		if len(arn) >= len(prefix.now) && arn[:len(prefix.now)] == prefix.now {
			return prefix.local + arn[len(prefix.now):]
		}
	}
	return arn
}
