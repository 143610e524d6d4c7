package deliver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/podtask/podtask/internal/host/procgroup"
	"github.com/podtask/podtask/internal/notice"
)

// passed are the variables that a program gets of podtask's environment.
var passed = []string{"PATH", "HOME", "USER", "LANG", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS"}

// command runs a program with a message on its standard input. It is ended with its process group.
func (s Sender) command(ctx context.Context, argv []string, m notice.Message) error {
	body, err := json.Marshal(DocumentOf(m, s.Host))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin = bytes.NewReader(body)
	cmd.Env = []string{"PODTASK_NOTICE_ID=" + m.ID, "PODTASK_NOTICE_CONDITION=" + string(m.Condition), "PODTASK_NOTICE_RULE=" + m.Rule}
	for _, name := range passed {
		if v := s.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.WaitDelay = time.Second
	err = procgroup.Run(cmd)
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		return fmt.Errorf("the program %s ended with %s", argv[0], ended)
	}
	return err
}
