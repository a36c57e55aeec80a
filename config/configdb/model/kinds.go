package model

func (CreateComponent) write()   {}
func (EditComponent) write()     {}
func (DeleteComponent) write()   {}
func (CreateDefinition) write()  {}
func (EditDefinition) write()    {}
func (EditContent) write()       {}
func (DeleteDefinition) write()  {}
func (DeclareSecrets) write()    {}
func (CreateEnvironment) write() {}
func (EditEnvironment) write()   {}
func (DeleteEnvironment) write() {}
func (RenameLevel) write()       {}
func (PutNode) write()           {}
func (DeleteNode) write()        {}
func (Put) write()               {}
func (EditKeys) write()          {}
func (Remove) write()            {}
func (Rollback) write()          {}
func (Bulk) write()              {}
