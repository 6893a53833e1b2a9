"""The members' management interface as the operator asks it."""
