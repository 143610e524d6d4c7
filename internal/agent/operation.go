package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/podtask/podtask/pkg/lifecycle"
)

// begin starts an effect.
func (r *run) begin(s lifecycle.State, e lifecycle.Effect) {
	switch e.(type) {
	case lifecycle.CancelOp:
		if cancel := r.ops[e.Op()]; cancel != nil {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	r.ops[e.Op()] = cancel
	r.wg.Go(func() {
		defer cancel()
		began := time.Now()
		r.host.fail.effect(beforeEffect, e)
		answer := r.do(ctx, s, e)
		if r.host.observe != nil {
			r.host.observe(e, time.Since(began), answer.Failure)
		}
		r.host.fail.effect(afterEffect, e)
		r.host.log.Debug("operation", "task", s.ID, "effect", fmt.Sprintf("%T%+v", e, e), "took", time.Since(began), "failure", answer.Failure.String())
		r.send(answer)
	})
}

// do does an effect, and what of the endpoint belongs to it.
func (r *run) do(ctx context.Context, s lifecycle.State, e lifecycle.Effect) lifecycle.OpFinished {
	var missing lifecycle.Failure
	if e, ok := e.(lifecycle.StartContainer); ok {
		r.endpoint.describe(ctx, s, e.Index)
		missing = r.endpoint.enter(ctx, s, e.Index)
		r.host.fail.effect(midEffect, e)
	}
	answer := r.host.Runtime.Apply(ctx, s, e)
	if answer.Failure.Class != lifecycle.OK {
		return answer
	}
	if _, ok := e.(lifecycle.RunSandbox); ok {
		answer.Result.Metadata, missing = r.endpoint.provide(ctx, s)
	}
	if missing.Class != lifecycle.OK {
		answer.Result.Tolerated = missing
	}
	return answer
}

func (r *run) forget(id lifecycle.OpID) {
	if cancel := r.ops[id]; cancel != nil {
		cancel()
		delete(r.ops, id)
	}
}
