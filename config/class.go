package config

// Class is what kind of failure an error is, whoever meets it; the exit code of a command follows from it. An error is
// of a class by its method Is, so that errors.Is(err, Conflict) finds it whatever it is wrapped in.
type Class string

// The classes.
const (
	Rejected    Class = "rejected"      // what was asked for was validated, and has faults
	Conflict    Class = "conflict"      // it does not go with what is there, or somebody else holds that
	NotFound    Class = "not found"     // it names what does not exist
	Permission  Class = "not permitted" // not to this caller
	Unreachable Class = "not reachable" // whoever was to answer
	Timeout     Class = "timeout"       // no answer came in time
	Busy        Class = "busy"          // not now; another try may help
	Partial     Class = "partial"       // a part of the answer is missing
)

// Error is the class in words.
func (c Class) Error() string { return string(c) }

// NewError is an error of a class that has no type of its own.
func (c Class) NewError(text string) error { return &classError{c, text} }

type classError struct {
	class Class
	text  string
}

func (e *classError) Error() string        { return e.text }
func (e *classError) Is(target error) bool { return target == e.class }
