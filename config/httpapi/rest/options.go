package rest

import "context"

// Option changes the handler of an API.
type Option func(API)

// WithAudit hears of every write, every refusal of a caller and every answer in which secrets
// may be seen, before the caller has the answer. It is called by many goroutines at once.
func WithAudit(audit func(Entry)) Option { return func(a API) { a.frame().Audit = audit } }

// WithIntents is asked before an act that goes into the audit log; must is that it is an admin's, or
// shows a secret: it is not done unless its line is written. An error refuses the act.
func WithIntents(intent func(e Entry, must bool) error) Option {
	return func(a API) { a.frame().Intent = intent }
}

// WithFailures hears what the caller of a 500, or of a controller that is not ready, is not told.
func WithFailures(f func(method, path string, err error)) Option {
	return func(a API) { a.frame().Failed = f }
}

// WithBodies shares the budget of bodies under way with other doors of the same process, in place of Limits.Bytes.
func WithBodies(b *Bodies) Option { return func(a API) { a.frame().Bodies = b } }

// WithAnswers shares the budget of answers under way with other doors of the same process, in place of Limits.Answers.
func WithAnswers(b *Answers) Option { return func(a API) { a.frame().Answers = b } }

// WithVersion sets the version that the description names.
func WithVersion(v string) Option { return func(a API) { a.frame().Version = v } }

// WithLimits sets other limits than the API's own.
func WithLimits(l Limits) Option { return func(a API) { a.frame().Limits = l } }

// WithEnd ends the streams of events with a context: that of the server.
func WithEnd(ctx context.Context) Option { return func(a API) { a.frame().Ending = ctx } }
