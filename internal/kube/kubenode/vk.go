package kubenode

import (
	"fmt"
	"log/slog"

	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
)

// logger logs messages of Virtual Kubelet at the level debug, and its errors as warnings: it retries by itself.
type logger struct{ log *slog.Logger }

func (l logger) Debug(args ...any)            { l.log.Debug(fmt.Sprint(args...)) }
func (l logger) Debugf(f string, args ...any) { l.log.Debug(fmt.Sprintf(f, args...)) }
func (l logger) Info(args ...any)             { l.log.Debug(fmt.Sprint(args...)) }
func (l logger) Infof(f string, args ...any)  { l.log.Debug(fmt.Sprintf(f, args...)) }
func (l logger) Warn(args ...any)             { l.log.Debug(fmt.Sprint(args...)) }
func (l logger) Warnf(f string, args ...any)  { l.log.Debug(fmt.Sprintf(f, args...)) }
func (l logger) Error(args ...any)            { l.log.Warn(fmt.Sprint(args...)) }
func (l logger) Errorf(f string, args ...any) { l.log.Warn(fmt.Sprintf(f, args...)) }
func (l logger) Fatal(args ...any)            { l.log.Error(fmt.Sprint(args...)) }
func (l logger) Fatalf(f string, args ...any) { l.log.Error(fmt.Sprintf(f, args...)) }

// WithField implements log.Logger.
func (l logger) WithField(key string, v any) vklog.Logger { return logger{l.log.With(key, v)} }

// WithFields implements log.Logger.
func (l logger) WithFields(f vklog.Fields) vklog.Logger {
	out := l.log
	for k, v := range f {
		out = out.With(k, v)
	}
	return logger{out}
}

// WithError implements log.Logger.
func (l logger) WithError(err error) vklog.Logger { return logger{l.log.With("error", err)} }
