//! What goes over the socket, as values.
