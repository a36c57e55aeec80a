package config

// Class is the kind of failure that an error reports; the exit code of a command follows from it. An error declares its
// class by its method Is, so that errors.Is(err, Conflict) finds the class through any wrapping.
type Class string

// The classes of errors.
const (
	Rejected    Class = "rejected"      // the request was validated and has faults
	Conflict    Class = "conflict"      // the request contradicts the present state, or someone else holds the object
	NotFound    Class = "not found"     // the request names an object that does not exist
	Permission  Class = "not permitted" // this caller lacks the right
	Unreachable Class = "not reachable" // the other side can't be reached
	Timeout     Class = "timeout"       // no answer came in time
	Busy        Class = "busy"          // not now; a retry may succeed
	Partial     Class = "partial"       // a part of the answer is missing
)

// Error returns the name of the class.
func (c Class) Error() string { return string(c) }

// NewError returns an error of the class, for errors that have no type of their own.
func (c Class) NewError(text string) error { return &classError{c, text} }

type classError struct {
	class Class
	text  string
}

func (e *classError) Error() string        { return e.text }
func (e *classError) Is(target error) bool { return target == e.class }
