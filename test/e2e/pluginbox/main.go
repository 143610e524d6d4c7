// Pluginbox is session-manager-plugin of AWS, built from its own source: the client with
// which `aws ecs execute-command` connects a terminal to a program, and `aws ssm start-session` forwards a port.
package main

import (
	"os"

	"github.com/aws/session-manager-plugin/src/sessionmanagerplugin/session"
	_ "github.com/aws/session-manager-plugin/src/sessionmanagerplugin/session/portsession"
	_ "github.com/aws/session-manager-plugin/src/sessionmanagerplugin/session/shellsession"
	_ "github.com/twinj/uuid" // the version that the plugin was written for
)

func main() { session.ValidateInputAndStartSession(os.Args, os.Stdout) }
