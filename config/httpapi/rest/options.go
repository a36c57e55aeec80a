package rest

import (
	"context"
	"time"

	"edgespan/pubsub/trace"
)

// Option changes the handler of an API.
type Option func(API)

// WithAudit sets the function that gets every write, every refusal and every answer that may show secrets, before the
// caller gets the answer. It must be safe for concurrent use.
func WithAudit(audit func(Entry)) Option { return func(a API) { a.frame().Audit = audit } }

// WithIntents sets the function that is called before an audited action; must is true if the action needs an admin or
// shows a secret: it is not done unless its line is written. An error refuses the action.
func WithIntents(intent func(e Entry, must bool) error) Option {
	return func(a API) { a.frame().Intent = intent }
}

// WithFailures sets the function that gets the details of a 500 and of a controller that is not ready; the caller does
// not see them.
func WithFailures(f func(method, path string, err error)) Option {
	return func(a API) { a.frame().Failed = f }
}

// WithObserver sets the function that gets every request once its answer is computed. Its route is "" if it matches
// none.
func WithObserver(f func(method, route string, status int, took time.Duration)) Option {
	return func(a API) { a.frame().Observe = f }
}

// WithTracer sets the tracer of the calls that are no reads.
func WithTracer(t *trace.Tracer) Option { return func(a API) { a.frame().Tracer = t } }

// WithBodies shares a budget for bodies with other listeners of the process, instead of Limits.Bytes.
func WithBodies(b *Bodies) Option { return func(a API) { a.frame().Bodies = b } }

// WithAnswers shares a budget for answers with other listeners of the process, instead of Limits.Answers.
func WithAnswers(b *Answers) Option { return func(a API) { a.frame().Answers = b } }

// WithVersion sets the version in the OpenAPI description.
func WithVersion(v string) Option { return func(a API) { a.frame().Version = v } }

// WithLimits replaces the API's default limits.
func WithLimits(l Limits) Option { return func(a API) { a.frame().Limits = l } }

// WithEnd ends the streams of events when ctx, the server's context, ends.
func WithEnd(ctx context.Context) Option { return func(a API) { a.frame().Ending = ctx } }
